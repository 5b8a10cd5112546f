-- As store/migrations/0007_skills.sql, whose comments hold here too.

CREATE TABLE registered_skills (
    name              TEXT COLLATE "C" PRIMARY KEY,
    publisher_address TEXT COLLATE "C" NOT NULL,
    publisher_name    TEXT COLLATE "C" NOT NULL,
    manifest          TEXT COLLATE "C" NOT NULL,
    manifest_hash     TEXT COLLATE "C" NOT NULL,
    status            TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'revoked')),
    registered_at     BIGINT NOT NULL,
    revoked_at        BIGINT,
    dir               TEXT COLLATE "C" NOT NULL
);
