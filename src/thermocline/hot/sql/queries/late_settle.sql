-- Lets the late rows of a trap go if they are what was compared.
SELECT thermocline._settle_trap(%(trap)s::oid, %(position)s::pg_lsn, %(evidence)s::jsonb, %(reason)s);
