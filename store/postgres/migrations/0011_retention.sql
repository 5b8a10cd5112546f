-- As store/migrations/0011_retention.sql. There are no audit segments here to be kept.
CREATE TABLE holds (
    run       TEXT COLLATE "C" PRIMARY KEY REFERENCES runs (id),
    reason    TEXT COLLATE "C" NOT NULL,
    held_at   BIGINT NOT NULL,
    first_seq BIGINT NOT NULL
);

CREATE FUNCTION run_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM holds WHERE run = OLD.run) THEN
        RAISE EXCEPTION 'the run is held';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER outputs_held BEFORE DELETE ON outputs FOR EACH ROW EXECUTE FUNCTION run_held();
CREATE TRIGGER handoffs_held BEFORE DELETE ON handoffs FOR EACH ROW EXECUTE FUNCTION run_held();

ALTER TABLE runs ADD COLUMN output_gone BIGINT;
ALTER TABLE runs ADD COLUMN artifacts_gone BIGINT;
