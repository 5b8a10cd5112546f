-- What lists show of a run, JSON, record.Brief: a record has hundreds of tools. '' in rows of earlier versions.
ALTER TABLE runs ADD COLUMN brief TEXT NOT NULL DEFAULT '';
