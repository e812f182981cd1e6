-- What a sandbox had in memory on average, and what it had read from its disk and written to it.
ALTER TABLE sandboxes ADD COLUMN memory_average_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN disk_read_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN disk_written_bytes INTEGER NOT NULL DEFAULT 0;
