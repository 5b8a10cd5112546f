-- As store/migrations/0004_servers.sql, whose comments hold here too.
CREATE TABLE servers (
    id      TEXT COLLATE "C" PRIMARY KEY,
    name    TEXT COLLATE "C" NOT NULL,
    process TEXT COLLATE "C" NOT NULL,
    beat    BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
