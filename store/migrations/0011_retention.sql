-- Runs whose records stay with all that they name, and what was removed of others: package retention.

CREATE TABLE holds (
    run       TEXT PRIMARY KEY REFERENCES runs (id), -- which therefore cannot be deleted
    reason    TEXT NOT NULL,
    held_at   INTEGER NOT NULL,
    first_seq INTEGER NOT NULL  -- the run's first audit event: this one and all later ones stay
);

CREATE TRIGGER outputs_held BEFORE DELETE ON outputs
WHEN EXISTS (SELECT 1 FROM holds WHERE run = OLD.run)
BEGIN SELECT RAISE(ABORT, 'the run is held'); END;

CREATE TRIGGER handoffs_held BEFORE DELETE ON handoffs
WHEN EXISTS (SELECT 1 FROM holds WHERE run = OLD.run)
BEGIN SELECT RAISE(ABORT, 'the run is held'); END;

-- As 0002_audit_segments.sql, but for the last condition.
DROP TRIGGER audit_segments_no_update;
CREATE TRIGGER audit_segments_no_update BEFORE UPDATE ON audit_segments
WHEN NOT (NEW.last_seq = OLD.last_seq AND NEW.first_seq = OLD.first_seq AND NEW.last_hash = OLD.last_hash
      AND NEW.newest = OLD.newest AND NEW.sealed_at = OLD.sealed_at
      AND (OLD.state = 'removing' AND NEW.state = 'removed'
        OR OLD.state = 'sealed' AND NEW.state = 'removing'
       AND NOT EXISTS (SELECT 1 FROM audit_segments WHERE last_seq < OLD.last_seq AND state = 'sealed')
       AND EXISTS (SELECT 1 FROM audit_events WHERE event = 'audit_removed' AND json_extract(data, '$.lastSeq') >= OLD.last_seq)
       AND NOT EXISTS (SELECT 1 FROM holds WHERE first_seq <= OLD.last_seq)))
BEGIN SELECT RAISE(ABORT, 'audit_segments is append-only'); END;

ALTER TABLE runs ADD COLUMN output_gone INTEGER;    -- when it was removed; NULL: it was not
ALTER TABLE runs ADD COLUMN artifacts_gone INTEGER;
