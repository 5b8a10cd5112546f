-- As store/migrations/0008_skill_images.sql, whose comments hold here too.

ALTER TABLE registered_skills ADD COLUMN image TEXT COLLATE "C" NOT NULL DEFAULT '';
