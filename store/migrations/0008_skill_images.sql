-- Skills that run on an image of their own.

ALTER TABLE registered_skills ADD COLUMN image TEXT NOT NULL DEFAULT ''; -- its digest, sha256: and 64 hex digits; '': the one of its language
