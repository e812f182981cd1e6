-- Keys of browsers stop working by themselves.
ALTER TABLE keys ADD COLUMN expires_at INTEGER;
