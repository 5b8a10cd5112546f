-- Times are milliseconds since 1970-01-01 UTC.

CREATE TABLE audit_events (
    id         TEXT PRIMARY KEY,     -- ULID
    timestamp  INTEGER NOT NULL,     -- when it happened
    intent_id  TEXT NOT NULL,        -- run id, or "system"
    event      TEXT NOT NULL,
    data       TEXT NOT NULL,        -- JSON object
    created_at INTEGER NOT NULL,     -- when it was written
    seq        INTEGER NOT NULL UNIQUE,
    prev_hash  TEXT NOT NULL,        -- hash of seq - 1; 64 zeros for the first
    hash       TEXT NOT NULL
);
CREATE INDEX audit_events_timestamp ON audit_events (timestamp);
CREATE INDEX audit_events_intent ON audit_events (intent_id);

CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events
BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END;

CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END;

CREATE TRIGGER audit_events_at_end BEFORE INSERT ON audit_events
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM audit_events)
BEGIN SELECT RAISE(ABORT, 'audit_events is append-only: seq must follow the last one'); END;

CREATE TABLE runs (
    id         TEXT PRIMARY KEY,     -- ULID: sorts by start
    started_at INTEGER NOT NULL,
    client     TEXT NOT NULL,
    profile    TEXT NOT NULL,
    outcome    TEXT NOT NULL,        -- '' while it runs
    exit_code  INTEGER,              -- NULL after a signal and when no program ran
    driver     TEXT NOT NULL,
    image      TEXT NOT NULL,        -- digest
    owner      TEXT NOT NULL,        -- engine that runs it: see record.Lost
    plan       TEXT NOT NULL,        -- JSON; '' when refused before there was one
    record     TEXT NOT NULL         -- JSON, record.Record
);
CREATE INDEX runs_unfinished ON runs (owner) WHERE outcome = '';

-- Kept output that is small. Larger output is a file: see record.Output.
CREATE TABLE outputs (
    run     TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    channel TEXT NOT NULL,           -- stdout or stderr
    data    BLOB NOT NULL,
    PRIMARY KEY (run, channel)
) WITHOUT ROWID;
