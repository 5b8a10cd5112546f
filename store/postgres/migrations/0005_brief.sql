-- As store/migrations/0005_brief.sql.
ALTER TABLE runs ADD COLUMN brief TEXT COLLATE "C" NOT NULL DEFAULT '';
