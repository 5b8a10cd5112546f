-- Programs of others with signed manifests: package skill.

-- The table as it was published, and where the files are. A skill that is revoked stays, and so does its name.
CREATE TABLE registered_skills (
    name              TEXT PRIMARY KEY,
    publisher_address TEXT NOT NULL,    -- 0x and 40 hex digits, as the manifest has it
    publisher_name    TEXT NOT NULL,
    manifest          TEXT NOT NULL,    -- JSON, with its signature
    manifest_hash     TEXT NOT NULL,    -- 0x and 64 hex digits
    status            TEXT NOT NULL CHECK (status IN ('active', 'revoked')),
    registered_at     INTEGER NOT NULL, -- Unix milliseconds
    revoked_at        INTEGER,          -- NULL: it is active
    dir               TEXT NOT NULL     -- of its files, on the host that registered it
);
