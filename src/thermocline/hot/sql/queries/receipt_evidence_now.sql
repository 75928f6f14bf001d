SELECT e.row_count, e.fingerprint, e.relfilenode FROM thermocline._chunk_evidence(%(chunk)s::oid) e;
