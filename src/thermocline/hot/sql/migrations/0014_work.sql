-- Everything that runs by itself: units of work with leases, what they planned, when they are made, what holds them back.

CREATE TABLE thermocline.work_unit (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind           text        NOT NULL CHECK (kind <> ''),
    chronotable_id int,
    scope          text        NOT NULL DEFAULT '',
    payload        jsonb       NOT NULL DEFAULT '{}',
    status         text        NOT NULL DEFAULT 'pending'
                               CHECK (status IN ('pending', 'claimed', 'done', 'failed', 'dead', 'cancelled')),
    destructive    boolean     NOT NULL DEFAULT false,
    lane           text,
    owner          text,
    lease_epoch    bigint      NOT NULL DEFAULT 0,
    lease_until    timestamptz,
    not_before     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    attempt        int         NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts   int         NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    last_error     text,
    plan_id        bigint,
    result         jsonb,
    schedule_id    int,
    made_at        timestamptz NOT NULL DEFAULT pg_catalog.now(),
    made_by        text        NOT NULL DEFAULT session_user,
    claimed_at     timestamptz,
    ended_at       timestamptz,
    CHECK ((status = 'claimed') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('pending', 'claimed')) = (ended_at IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
-- What is to be done stands here once, however many schedulers ask for it.
CREATE UNIQUE INDEX idx_work_unit_once ON thermocline.work_unit (kind, chronotable_id, scope) NULLS NOT DISTINCT
    WHERE status IN ('pending', 'claimed');
-- One at a time in a lane.
CREATE UNIQUE INDEX idx_work_unit_lane ON thermocline.work_unit (lane) WHERE status = 'claimed' AND lane IS NOT NULL;
-- When each can be taken next: a pending one from not_before on, a claimed one when its lease has run out.
CREATE INDEX idx_work_unit_ready ON thermocline.work_unit (coalesce(lease_until, not_before), id)
    WHERE status IN ('pending', 'claimed');
CREATE INDEX idx_work_unit_ended ON thermocline.work_unit (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX idx_work_unit_broken ON thermocline.work_unit (id) WHERE status IN ('failed', 'dead');
COMMENT ON TABLE thermocline.work_unit IS
    'Pieces of background work. Whoever claims one owns it until lease_until and gets a new lease_epoch; every later write names '
    'owner and epoch, so a worker that was overtaken writes nothing. failed: trying again would not help. dead: tried too often.';

CREATE TABLE thermocline.plan (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    work_unit_id   bigint,
    lease_epoch    bigint,
    kind           text        NOT NULL,
    chronotable_id int,
    object         text        NOT NULL,
    destructive    boolean     NOT NULL,
    policy         text,
    lines          jsonb       NOT NULL,
    made_at        timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    made_by        text        NOT NULL DEFAULT session_user,
    ended_at       timestamptz,
    outcome        jsonb
);
CREATE INDEX idx_plan_made ON thermocline.plan (made_at);
COMMENT ON TABLE thermocline.plan IS
    'What a unit of work was about to do, line by line with reasons, written down before it did it; and what came of it.';

CREATE TABLE thermocline.schedule (
    id             int         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind           text        NOT NULL CHECK (kind <> ''),
    chronotable_id int         REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    every          interval,
    cron           text,
    window_start   time,
    window_end     time,
    window_means   text        CHECK (window_means IN ('runs', 'pauses')),
    enabled        boolean     NOT NULL DEFAULT true,
    problem        text,
    set_at         timestamptz NOT NULL DEFAULT pg_catalog.now(),
    set_by         text        NOT NULL DEFAULT session_user,
    CONSTRAINT uq_schedule UNIQUE NULLS NOT DISTINCT (kind, chronotable_id),
    CONSTRAINT schedule_one_rule CHECK (num_nonnulls(every, cron) = 1),
    CONSTRAINT schedule_every CHECK (every >= interval '1 second' AND extract(month FROM every) = 0 AND extract(year FROM every) = 0),
    CONSTRAINT schedule_cron CHECK (cron ~ '^\S+( \S+){4}$'),
    CONSTRAINT schedule_window CHECK (num_nonnulls(window_start, window_end, window_means) IN (0, 3) AND window_start <> window_end)
);
COMMENT ON TABLE thermocline.schedule IS
    'When each kind of work is due: for one table, or, without a table, for all that have no schedule of their own. Times of cron '
    'and of the window are UTC; a window says when the work runs, or when it pauses.';

CREATE TABLE thermocline.schedule_run (
    kind           text        NOT NULL,
    chronotable_id int         REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    rule           text        NOT NULL,
    last_at        timestamptz,
    next_at        timestamptz NOT NULL,
    CONSTRAINT uq_schedule_run UNIQUE NULLS NOT DISTINCT (kind, chronotable_id)
);
COMMENT ON TABLE thermocline.schedule_run IS
    'When a kind of work was last made for a table and when it is due again, by the rule that was in force then.';

INSERT INTO thermocline.schedule (kind, every, cron) VALUES
    ('partitions', '5 minutes', NULL),
    ('refresh',    '1 minute',  NULL),
    ('tier',       '1 hour',    NULL),
    ('retention',  '1 hour',    NULL),
    ('verify',     NULL,        '0 3 * * 0'),
    ('prune',      '1 hour',    NULL);

CREATE TABLE thermocline.work_stop (
    what text        PRIMARY KEY CHECK (what <> ''),
    why  text        NOT NULL DEFAULT '',
    who  text        NOT NULL DEFAULT session_user,
    at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE thermocline.work_stop IS
    'What nobody may begin, and destructive work may not go on with, while its row is here: a kind, destructive, or everything.';

CREATE TABLE thermocline.work_budget (
    class                 text        PRIMARY KEY,
    most_at_once          int         NOT NULL DEFAULT 4 CHECK (most_at_once > 0),
    bytes_per_second      float8      CHECK (bytes_per_second > 0),
    operations_per_second float8      CHECK (operations_per_second > 0),
    bytes_left            float8      NOT NULL DEFAULT 0,
    operations_left       float8      NOT NULL DEFAULT 0,
    filled_at             timestamptz NOT NULL DEFAULT pg_catalog.now()
);
INSERT INTO thermocline.work_budget (class) VALUES ('maintenance');
COMMENT ON TABLE thermocline.work_budget IS
    'What all nodes together may spend on a class of work: units at once, bytes and operations in a second; NULL: no limit. '
    'The rest is the bucket of tokens that they draw from, at most a second''s worth, below zero while they owe.';
