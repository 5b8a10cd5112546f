-- As store/migrations/0006_handoffs.sql, whose comments hold here too.

ALTER TABLE runs ADD COLUMN source TEXT COLLATE "C" NOT NULL DEFAULT '';

CREATE TABLE handoffs (
    id         TEXT COLLATE "C" PRIMARY KEY,
    run        TEXT COLLATE "C" NOT NULL,
    receiver   TEXT COLLATE "C" NOT NULL,
    outcome    TEXT COLLATE "C" NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('open', 'pending', 'delivered', 'dead', 'acked')),
    created_at BIGINT NOT NULL,
    acked_at   BIGINT,
    acked_by   TEXT COLLATE "C" NOT NULL,
    UNIQUE (run, receiver)
);
CREATE INDEX handoffs_state ON handoffs (state, id);

CREATE TABLE handoff_deliveries (
    handoff  TEXT COLLATE "C" NOT NULL REFERENCES handoffs (id) ON DELETE CASCADE,
    sink     TEXT COLLATE "C" NOT NULL,
    state    TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
    attempts BIGINT NOT NULL,
    due_at   BIGINT NOT NULL,
    error    TEXT COLLATE "C" NOT NULL,
    done_at  BIGINT,
    PRIMARY KEY (handoff, sink)
);
CREATE INDEX handoff_deliveries_due ON handoff_deliveries (sink, due_at) WHERE state = 'pending';
