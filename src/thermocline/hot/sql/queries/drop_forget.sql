-- The chunk was not detached after all, or somebody else has removed it.
DELETE FROM thermocline.detaching WHERE chunk_oid = %(chunk)s::oid;
