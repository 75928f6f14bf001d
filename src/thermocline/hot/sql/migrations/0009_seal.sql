-- Anybody may write messages into the log. Ours about chunks decide what counts in the lake, so they carry a seal that
-- nobody else can make.

CREATE TABLE thermocline.seal (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    key      bytea   NOT NULL
);
INSERT INTO thermocline.seal (key)
VALUES (pg_catalog.sha256(pg_catalog.convert_to(
    pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text, 'UTF8')));
COMMENT ON TABLE thermocline.seal IS 'The secret by which messages in the log are known to be ours.';
