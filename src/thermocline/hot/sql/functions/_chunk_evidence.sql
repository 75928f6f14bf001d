-- The physical state of a chunk, as receipts record it and as it is checked again before a drop. Row versions never change
-- in place, so the sum over their addresses and writers changes with every insert, update and delete, and survives vacuum,
-- freezing, row locks and rolled-back updates. What such a sum cannot see is in the description of the columns.
-- Everything comes from the snapshot of the calling statement; take a lock in an earlier one.
CREATE OR REPLACE FUNCTION thermocline._chunk_evidence(
    p_chunk         oid,
    p_with_rows     boolean DEFAULT true,
    OUT row_count   bigint,
    OUT fingerprint numeric,
    OUT relfilenode oid,
    OUT parent      oid,
    OUT bound       text,
    OUT columns     jsonb
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET bytea_output = 'hex'
SET extra_float_digits = 1
SET row_security = off
AS $$
BEGIN
    SELECT c.relfilenode, i.inhparent, pg_get_expr(c.relpartbound, c.oid)
    INTO relfilenode, parent, bound
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE c.oid = p_chunk AND c.relkind = 'r';
    IF NOT FOUND THEN
        RETURN;
    END IF;

    columns := thermocline._chunk_columns(p_chunk);
    IF p_with_rows THEN
        EXECUTE format(
            'SELECT count(*), coalesce(sum(hash_record_extended(row(ctid, xmin), 0)), 0) FROM ONLY %s', p_chunk::regclass)
        INTO row_count, fingerprint;
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._chunk_evidence(oid, boolean) IS
    'Row count, fingerprint, file, place and columns of a chunk; NULLs for one that is not there. '
    'Without p_with_rows the rows are not read.';
