-- Old audit events move from the table into sealed files (package audit). A row may go only when a segment that is listed
-- here holds it, a segment is listed once and in order, and the newest event always stays, so that the chain goes on from it.

CREATE TABLE audit_segments (
    last_seq  INTEGER PRIMARY KEY,
    first_seq INTEGER NOT NULL,
    last_hash TEXT NOT NULL,         -- of the event last_seq
    newest    INTEGER NOT NULL,      -- created_at of the event last_seq
    sealed_at INTEGER NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('sealed', 'removing', 'removed'))
);

CREATE TRIGGER audit_segments_at_end BEFORE INSERT ON audit_segments
WHEN NEW.state <> 'sealed'
  OR NEW.first_seq <> (SELECT coalesce(max(last_seq), 0) + 1 FROM audit_segments)
  OR NEW.last_seq < NEW.first_seq
  OR NEW.last_seq >= (SELECT coalesce(max(seq), 0) FROM audit_events)
  OR NOT EXISTS (SELECT 1 FROM audit_events WHERE seq = NEW.last_seq AND hash = NEW.last_hash)
BEGIN SELECT RAISE(ABORT, 'audit_segments continues the last one, and never holds the newest event'); END;

CREATE TRIGGER audit_segments_no_delete BEFORE DELETE ON audit_segments
BEGIN SELECT RAISE(ABORT, 'audit_segments is append-only'); END;

-- Only the oldest segment may go, and only when an event says so.
CREATE TRIGGER audit_segments_no_update BEFORE UPDATE ON audit_segments
WHEN NOT (NEW.last_seq = OLD.last_seq AND NEW.first_seq = OLD.first_seq AND NEW.last_hash = OLD.last_hash
      AND NEW.newest = OLD.newest AND NEW.sealed_at = OLD.sealed_at
      AND (OLD.state = 'removing' AND NEW.state = 'removed'
        OR OLD.state = 'sealed' AND NEW.state = 'removing'
       AND NOT EXISTS (SELECT 1 FROM audit_segments WHERE last_seq < OLD.last_seq AND state = 'sealed')
       AND EXISTS (SELECT 1 FROM audit_events WHERE event = 'audit_removed' AND json_extract(data, '$.lastSeq') >= OLD.last_seq)))
BEGIN SELECT RAISE(ABORT, 'audit_segments is append-only'); END;

DROP TRIGGER audit_events_no_delete;
CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
WHEN OLD.seq > (SELECT coalesce(max(last_seq), 0) FROM audit_segments)
BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END;

-- How much there is to move: the sizes of the events that no segment holds, as audit.Append counts them.
CREATE TABLE audit_size (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    bytes INTEGER NOT NULL
);
INSERT INTO audit_size SELECT 1, coalesce(sum(octet_length(data) + 256), 0) FROM audit_events;
