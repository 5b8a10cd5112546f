-- Who signed the record, and how: record.Signer. '' in rows of earlier versions and while a run has no end.
ALTER TABLE runs ADD COLUMN signed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN signature TEXT NOT NULL DEFAULT '';
