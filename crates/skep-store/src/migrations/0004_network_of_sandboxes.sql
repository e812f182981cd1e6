-- What a sandbox had received and sent when it ended.
ALTER TABLE sandboxes ADD COLUMN received_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN sent_bytes INTEGER NOT NULL DEFAULT 0;
