-- As store/migrations/0001_runs_and_audit.sql, whose comments hold here too. Text is compared byte by byte (COLLATE "C"), as
-- SQLite does: ids sort by time, and a range of them finds a prefix.

CREATE TABLE audit_events (
    id         TEXT COLLATE "C" PRIMARY KEY,
    timestamp  BIGINT NOT NULL,
    intent_id  TEXT COLLATE "C" NOT NULL,
    event      TEXT COLLATE "C" NOT NULL,
    data       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    seq        BIGINT NOT NULL UNIQUE,
    prev_hash  TEXT COLLATE "C" NOT NULL,
    hash       TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_events_timestamp ON audit_events (timestamp);
CREATE INDEX audit_events_intent ON audit_events (intent_id);

CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_events is append-only';
END $$;

CREATE FUNCTION audit_events_at_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM audit_events) THEN
        RAISE EXCEPTION 'audit_events is append-only: seq must follow the last one';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_append_only();
CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_append_only();
CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_events_append_only();
CREATE TRIGGER audit_events_at_end BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_at_end();

CREATE TABLE runs (
    id         TEXT COLLATE "C" PRIMARY KEY,
    started_at BIGINT NOT NULL,
    client     TEXT COLLATE "C" NOT NULL,
    profile    TEXT COLLATE "C" NOT NULL,
    outcome    TEXT COLLATE "C" NOT NULL,
    exit_code  BIGINT,
    driver     TEXT COLLATE "C" NOT NULL,
    image      TEXT COLLATE "C" NOT NULL,
    owner      TEXT COLLATE "C" NOT NULL,
    plan       TEXT COLLATE "C" NOT NULL,
    record     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX runs_unfinished ON runs (owner) WHERE outcome = '';

CREATE TABLE outputs (
    run     TEXT COLLATE "C" NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    channel TEXT COLLATE "C" NOT NULL,
    data    BYTEA NOT NULL,
    PRIMARY KEY (run, channel)
);
