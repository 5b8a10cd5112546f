-- As store/migrations/0002_audit_segments.sql. Events stay in the table here: no server's files could hold them for all, see
-- audit.Rotate. So the list of segments stays empty, and nothing may be added to it.

CREATE TABLE audit_segments (
    last_seq  BIGINT PRIMARY KEY,
    first_seq BIGINT NOT NULL,
    last_hash TEXT COLLATE "C" NOT NULL,
    newest    BIGINT NOT NULL,
    sealed_at BIGINT NOT NULL,
    state     TEXT COLLATE "C" NOT NULL CHECK (state IN ('sealed', 'removing', 'removed'))
);

CREATE FUNCTION audit_segments_none() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_segments stays empty: events stay in audit_events';
END $$;

CREATE TRIGGER audit_segments_no_insert BEFORE INSERT ON audit_segments FOR EACH ROW EXECUTE FUNCTION audit_segments_none();

-- The sizes of the events, as audit.Append counts them.
CREATE TABLE audit_size (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    bytes BIGINT NOT NULL
);
INSERT INTO audit_size SELECT 1, coalesce(sum(octet_length(data) + 256), 0) FROM audit_events;

-- What package audit asks SQLite for: where the file of the database is, beside which segments lie. Here there is none.
CREATE VIEW pragma_database_list AS SELECT 'main' AS name, '' AS file;
