-- As store/migrations/0003_service.sql, whose comments hold here too.

CREATE TABLE tokens (
    id          TEXT COLLATE "C" PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL,
    role        TEXT COLLATE "C" NOT NULL CHECK (role IN ('owner', 'runner', 'viewer')),
    hash        TEXT COLLATE "C" NOT NULL UNIQUE,
    max_running BIGINT NOT NULL,
    max_queued  BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT
);
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

CREATE TABLE sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    token      TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX sessions_token ON sessions (token);

-- One row for each run that was accepted. It is the truth: the queue only delivers what stands here.
CREATE TABLE requests (
    run             TEXT COLLATE "C" PRIMARY KEY,
    token           TEXT COLLATE "C" NOT NULL,
    session         TEXT COLLATE "C" NOT NULL,
    idempotency_key TEXT COLLATE "C",
    hash            TEXT COLLATE "C" NOT NULL,
    request         TEXT COLLATE "C" NOT NULL,
    state           TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'queued', 'running', 'ended')),
    cancel          BIGINT NOT NULL,
    worker          TEXT COLLATE "C" NOT NULL,
    max_running     BIGINT NOT NULL DEFAULT 0,
    memory_bytes    BIGINT NOT NULL DEFAULT 0,
    cpus            DOUBLE PRECISION NOT NULL DEFAULT 0,
    accepted_at     BIGINT NOT NULL,
    queued_at       BIGINT,
    started_at      BIGINT,
    ended_at        BIGINT
);
CREATE UNIQUE INDEX requests_key ON requests (token, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX requests_open ON requests (state, token, run) WHERE state <> 'ended';
CREATE INDEX requests_session ON requests (session, run) WHERE session <> '';

CREATE TABLE approvals (
    run          TEXT COLLATE "C" PRIMARY KEY REFERENCES requests (run),
    hash         TEXT COLLATE "C" NOT NULL,
    code_sha256  TEXT COLLATE "C" NOT NULL,
    subject      TEXT COLLATE "C" NOT NULL,
    token        TEXT COLLATE "C" NOT NULL,
    rule         TEXT COLLATE "C" NOT NULL,
    detail       TEXT COLLATE "C" NOT NULL,
    plan         TEXT COLLATE "C" NOT NULL,
    code         TEXT COLLATE "C" NOT NULL,
    omitted      TEXT COLLATE "C" NOT NULL,
    files        TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'granted', 'denied', 'expired', 'withdrawn')),
    requested_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    decided_at   BIGINT,
    decided_by   TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    valid_until  BIGINT
);
CREATE INDEX approvals_state ON approvals (state, run);
CREATE INDEX approvals_hash ON approvals (hash, state);
CREATE INDEX approvals_subject ON approvals (subject, state, run);
