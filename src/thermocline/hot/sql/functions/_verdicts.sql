-- Every resident chunk of a table, or one of them: its state, what becomes of it, why, since when, and what to do. Everybody who shows
-- chunks to people asks here. p_goal restricts it to those that are due to be dropped or to be flagged, as a run of either sees them.
-- With p_with_rows the rows of due chunks are read, so that what was written since a receipt shows at once; without, only of those that are to
-- be dropped and that the stream may have written to since, so that it shows once the feed has seen it. Whoever may not read a chunk is
-- told once somebody has noticed.
CREATE OR REPLACE FUNCTION thermocline._verdicts(
    p_chronotable_id int,
    p_chunk          oid     DEFAULT NULL,
    p_goal           text    DEFAULT NULL,
    p_with_rows      boolean DEFAULT false
) RETURNS TABLE (
    chunk_oid   oid,
    chunk_name  text,
    range_start timestamptz,
    range_end   timestamptz,
    state       text,
    verdict     text,
    reason      text,
    message     text,
    since       timestamptz,
    next_step   text,
    tier_due    timestamptz,
    drop_due    timestamptz
)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
    WITH ages AS MATERIALIZED (
        SELECT min(CASE WHEN p.policy_type <> 'retention' AND p_goal IS DISTINCT FROM 'drop'
                        THEN coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval END) AS tier_after,
               min(CASE WHEN p_goal IS DISTINCT FROM 'tier' THEN (p.config ->> 'drop_after')::interval END) AS drop_after,
               min(CASE WHEN p.config ? 'drop_after'
                        THEN format('%s policy %s: drop_after %s', p.policy_type, p.id, p.config ->> 'drop_after') END) AS policy
        FROM lakets._policy_registry p WHERE p.chronotable_id = p_chronotable_id AND p.enabled
    ), chunks AS MATERIALIZED (
        SELECT m.chunk_oid, m.chunk_name, m.range_start, m.range_end, m.status, m.tiered_at, m.created_at, d.recorded_at, a.policy,
               m.last_modified_at,
               coalesce(m.kept_until > clock_timestamp() AND m.range_end <= now() - a.drop_after, false) AS kept,
               m.range_end + a.tier_after AS tier_due, m.range_end + a.drop_after AS drop_due,
               coalesce(m.range_end <= now() - a.drop_after, false) AS to_drop,
               coalesce(m.range_end <= now() - a.tier_after AND m.status = 'active', false) AS to_tier
        FROM lakets._chunk_metadata m CROSS JOIN ages a
        LEFT JOIN thermocline.detaching d ON d.chunk_oid = m.chunk_oid
        WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND (p_chunk IS NULL OR m.chunk_oid = p_chunk)
    ), against AS MATERIALIZED (
        -- Flagging takes proof in any case, dropping where the table's policy or its sync asks for it.
        SELECT * FROM thermocline._chunks_against((SELECT array_agg(c.chunk_oid) FROM chunks c WHERE c.to_drop AND c.recorded_at IS NULL))
        UNION ALL
        SELECT * FROM thermocline._chunks_against(
            (SELECT array_agg(c.chunk_oid) FROM chunks c WHERE c.to_tier AND NOT c.to_drop AND c.recorded_at IS NULL), true)
    ), words AS MATERIALIZED (
        SELECT a.code, a.rollups, w.message, w.next_step
        FROM (SELECT DISTINCT g.codes[1] AS code, g.table_name, g.schema_name, g.feed, coalesce(g.rollups, '') AS rollups
              FROM against g) a,
             LATERAL thermocline._reason_words(a.code, a.table_name, a.schema_name, a.feed, a.rollups) w
        UNION ALL
        SELECT 'kept', '', w.message, w.next_step FROM thermocline._reason_words('kept') w
    )
    SELECT c.chunk_oid, c.chunk_name, c.range_start, c.range_end, c.status, v.verdict, v.reason,
           CASE WHEN v.verdict = 'finish' THEN 'its drop was begun and is finished, or undone, first'
                WHEN v.reason = u.code AND (v.verdict = 'stays' OR v.reason IS DISTINCT FROM w.code) THEN u.message
                WHEN v.verdict = 'stays' THEN w.message
                WHEN v.verdict = 'drop' THEN c.policy || CASE WHEN g.gated THEN '; proven in the lake'
                                                             ELSE '; outright, as its table is not synced' END
                WHEN v.verdict = 'would drop' THEN 'once it is compared with the lake and found the same; today ' || w.message
                WHEN v.verdict = 'would tier' THEN 'it is compared with the lake first'
                WHEN v.reason = 'no_policy' THEN 'no policy asks for its removal'
                WHEN v.reason = 'proven' THEN 'it is proven in the lake'
                     || coalesce(format(', and kept until %s', c.drop_due), '; no policy asks for its removal')
                ELSE format('it is kept until %s', least(c.tier_due, c.drop_due)) END,
           CASE WHEN v.verdict = 'finish' THEN c.recorded_at
                WHEN v.reason = u.code THEN u.since
                WHEN v.verdict IN ('stays', 'would drop') THEN coalesce(
                    CASE WHEN v.reason = 'changed_since_receipt' THEN g.made_at ELSE g.since END,
                    CASE WHEN c.to_drop THEN c.drop_due ELSE c.tier_due END)  -- where nobody has written it down: since then it is in the way
                WHEN v.verdict = 'drop' THEN c.drop_due
                WHEN v.verdict = 'would tier' THEN c.tier_due
                WHEN v.reason = 'proven' THEN c.tiered_at
                ELSE c.created_at END,
           CASE WHEN v.reason = u.code THEN u.next_step WHEN v.verdict = 'stays' THEN w.next_step ELSE 'Nothing to do.' END,
           c.tier_due, c.drop_due
    FROM chunks c
    LEFT JOIN against g ON g.chunk_oid = c.chunk_oid
    CROSS JOIN LATERAL (
        SELECT NOT c.kept AND (p_with_rows OR coalesce(c.to_drop AND c.last_modified_at > g.made_at
                                                       AND has_table_privilege(c.chunk_oid, 'SELECT')
                                                       AND NOT row_security_active(c.chunk_oid), false)) AS with_rows
    ) y
    LEFT JOIN thermocline.unproven u ON u.chunk_oid = c.chunk_oid AND NOT coalesce(u.last_at < g.made_at, false)
    LEFT JOIN LATERAL (
        SELECT x.code, x.message, x.next_step
        FROM unnest(CASE WHEN y.with_rows THEN ARRAY[g.chunk_oid] END) o (oid),  -- nothing is called for nothing
             LATERAL thermocline._chunk_verdict(o.oid, NULL, g.gated, true) x
        LIMIT 1
    ) r ON g.chunk_oid IS NOT NULL
    LEFT JOIN words x ON (c.kept AND x.code = 'kept') OR (NOT c.kept AND NOT y.with_rows AND x.code = g.codes[1] AND x.rollups = coalesce(g.rollups, ''))
    CROSS JOIN LATERAL (SELECT coalesce(r.code, x.code) AS code,
                               coalesce(r.message, x.message) AS message,
                               coalesce(r.next_step, x.next_step) AS next_step) w
    CROSS JOIN LATERAL thermocline._verdict(c.status, c.recorded_at IS NOT NULL, c.drop_due, c.tier_due, now(), w.code, u.code) v
    WHERE p_goal IS NULL OR c.to_drop OR c.to_tier
    ORDER BY c.range_start
$$;

COMMENT ON FUNCTION thermocline._verdicts(int, oid, text, boolean) IS
    'State, verdict, reason, since when and next step of the resident chunks of a table.';
