-- The servers that share the table requests: queue.Members. One that has a file to itself is not listed.
CREATE TABLE servers (
    id      TEXT PRIMARY KEY,  -- as in requests.worker
    name    TEXT NOT NULL,     -- of its host, for people
    process TEXT NOT NULL,     -- a ULID: the next one that has the same id has another
    beat    INTEGER NOT NULL,  -- counts up while it lives
    seen_at INTEGER NOT NULL   -- its clock at that moment, for people: nothing is decided by it
);
