-- The runs of one token, the newest first: without it a page of its list walks everybody's.
CREATE INDEX requests_token ON requests (token, run);
