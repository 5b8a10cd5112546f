-- As store/migrations/0010_lists.sql.
CREATE INDEX requests_token ON requests (token, run);
