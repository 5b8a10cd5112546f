-- What `silk serve` keeps. Times are milliseconds since 1970-01-01 UTC; identifiers are ULIDs, which sort by time.

CREATE TABLE tokens (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,        -- what the owner calls it; free again when it is revoked
    role        TEXT NOT NULL CHECK (role IN ('owner', 'runner', 'viewer')),
    hash        TEXT NOT NULL UNIQUE, -- SHA-256 of the secret, hex; the secret has 256 random bits, so nothing slower is needed
    max_running INTEGER NOT NULL,     -- runs at once; 0: what the server allows each token
    max_queued  INTEGER NOT NULL,     -- runs that wait; 0: what the server allows each token
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,              -- NULL: never
    revoked_at  INTEGER               -- NULL: it is valid
);
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    token      TEXT NOT NULL,         -- id of the token that made it; 'local' for the socket
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX sessions_token ON sessions (token);

-- One row for each run that was accepted. It is the truth: the queue only delivers what stands here.
CREATE TABLE requests (
    run             TEXT PRIMARY KEY,
    token           TEXT NOT NULL,
    session         TEXT NOT NULL,    -- '' for none
    idempotency_key TEXT,
    hash            TEXT NOT NULL,    -- SHA-256 of the canonical request: what an approval is for
    request         TEXT NOT NULL,    -- JSON as it was accepted; '' once the run has ended
    state           TEXT NOT NULL CHECK (state IN ('pending', 'queued', 'running', 'ended')),
    cancel          INTEGER NOT NULL, -- 1: somebody asked for its end
    worker          TEXT NOT NULL,    -- that runs it; '' before
    max_running     INTEGER NOT NULL DEFAULT 0, -- of its token's runs at once, as it was when this one was accepted
    memory_bytes    INTEGER NOT NULL DEFAULT 0, -- what it may use: it starts when the host has this left
    cpus            REAL NOT NULL DEFAULT 0,
    accepted_at     INTEGER NOT NULL,
    queued_at       INTEGER,          -- NULL while it waits for an approval
    started_at      INTEGER,          -- when a worker took it
    ended_at        INTEGER
);
CREATE UNIQUE INDEX requests_key ON requests (token, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX requests_open ON requests (state, token, run) WHERE state <> 'ended';
CREATE INDEX requests_session ON requests (session, run) WHERE session <> '';

CREATE TABLE approvals (
    run          TEXT PRIMARY KEY REFERENCES requests (run),
    hash         TEXT NOT NULL,       -- that of the request
    code_sha256  TEXT NOT NULL,
    subject      TEXT NOT NULL,       -- what successive versions of one program have in common: profile and code name
    token        TEXT NOT NULL,       -- who asked
    rule         TEXT NOT NULL,       -- the ceiling that it is beyond
    detail       TEXT NOT NULL,
    plan         TEXT NOT NULL,       -- JSON
    code         TEXT NOT NULL,       -- as shown to the owner
    omitted      TEXT NOT NULL,       -- why it is not shown whole; '' if it is
    files        TEXT NOT NULL,       -- JSON: what else the program gets, files and input, as shown to the owner
    state        TEXT NOT NULL CHECK (state IN ('pending', 'granted', 'denied', 'expired', 'withdrawn')),
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,    -- without a decision until then it is denied
    decided_at   INTEGER,
    decided_by   TEXT NOT NULL,       -- id of a token, 'local', or '' before and when time ran out
    reason       TEXT NOT NULL,       -- the decider's words; '' for none
    valid_until  INTEGER              -- a grant: the same request hash needs no other approval until then
);
CREATE INDEX approvals_state ON approvals (state, run);
CREATE INDEX approvals_hash ON approvals (hash, state);
CREATE INDEX approvals_subject ON approvals (subject, state, run);
