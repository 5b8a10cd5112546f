-- As store/migrations/0009_signatures.sql.
ALTER TABLE runs ADD COLUMN signed_by TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN signature TEXT COLLATE "C" NOT NULL DEFAULT '';
