-- Volumes of teams. The id of a deleted one never returns, its name may.
CREATE TABLE volumes (
    id         TEXT PRIMARY KEY NOT NULL,
    team       TEXT NOT NULL,
    name       TEXT NOT NULL,
    mebibytes  INTEGER NOT NULL,
    read_only  INTEGER NOT NULL DEFAULT 0,
    -- The volume that it was copied from, which may be gone.
    source     TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX volumes_by_name ON volumes (team, name);

-- Volumes that were ordered with a sandbox, as JSON.
ALTER TABLE sandboxes ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]';
