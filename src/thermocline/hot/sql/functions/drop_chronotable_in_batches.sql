-- Drops a ChronoTable as drop_chronotable does, some chunks at a time with a commit after each time: for one of so many chunks that the
-- locks of all of them do not fit into one transaction. Call it outside of a transaction. If it is interrupted, what was dropped is
-- gone and the rest is there; call it again. (No SET clause, as that would forbid the commits; every name is written with its schema.)
CREATE OR REPLACE PROCEDURE lakets.drop_chronotable_in_batches(
    p_table_name  text,
    p_schema_name text DEFAULT 'public',
    p_batch       int  DEFAULT 50
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_more boolean := true;
BEGIN
    WHILE v_more LOOP
        v_more := thermocline._drop_some(p_table_name, p_schema_name, p_batch) OPERATOR(pg_catalog.>) 0;
        COMMIT;
    END LOOP;
    PERFORM lakets.drop_chronotable(p_table_name, p_schema_name);
END
$$;

COMMENT ON PROCEDURE lakets.drop_chronotable_in_batches(text, text, int) IS
    'Drops a ChronoTable, p_batch chunks in each transaction; its history stays in the lake.';
