-- Which policy asked for a drop that was begun: it is finished only while that one asks for it.
ALTER TABLE thermocline.detaching ADD COLUMN policy_id int;
COMMENT ON COLUMN thermocline.detaching.policy_id IS 'The policy that asks for the drop; NULL when somebody did.';
