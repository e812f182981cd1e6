-- Who may reach the ports of a sandbox, and how they are reached: as its owner ordered.
ALTER TABLE sandboxes ADD COLUMN is_private INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN host_mask TEXT;
-- Port numbers, separated by commas.
ALTER TABLE sandboxes ADD COLUMN https_ports TEXT;
