-- Undoes a detach.
SELECT thermocline._attach_back(%(chunk)s::oid, %(reason)s);
