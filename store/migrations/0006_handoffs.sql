-- What is handed on of runs that did not end well: package handoff.

-- Of a run that has not ended: what was run, JSON, run.Source, for the hand-off that follows if its engine dies.
ALTER TABLE runs ADD COLUMN source TEXT NOT NULL DEFAULT '';

CREATE TABLE handoffs (
    id         TEXT PRIMARY KEY,     -- ULID
    run        TEXT NOT NULL,
    receiver   TEXT NOT NULL,        -- who it is for: code_explainer, widow_weaver
    outcome    TEXT NOT NULL,        -- of the run
    content    TEXT NOT NULL,        -- silk.handoff/v1, JSON: every attempt to deliver it sends the same bytes
    state      TEXT NOT NULL CHECK (state IN ('open', 'pending', 'delivered', 'dead', 'acked')),
    created_at INTEGER NOT NULL,
    acked_at   INTEGER,              -- NULL: the receiver has not said that it took it
    acked_by   TEXT NOT NULL,        -- id of a token, 'local', or '' before
    UNIQUE (run, receiver)
);
CREATE INDEX handoffs_state ON handoffs (state, id);

-- One row for each sink that a hand-off goes to.
CREATE TABLE handoff_deliveries (
    handoff  TEXT NOT NULL REFERENCES handoffs (id) ON DELETE CASCADE,
    sink     TEXT NOT NULL,          -- its name in the configuration
    state    TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
    attempts INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,       -- of the next attempt; while one is made, when it is taken for lost
    error    TEXT NOT NULL,          -- of the last attempt
    done_at  INTEGER,                -- when it was delivered, given up or dropped
    PRIMARY KEY (handoff, sink)
);
CREATE INDEX handoff_deliveries_due ON handoff_deliveries (sink, due_at) WHERE state = 'pending';
