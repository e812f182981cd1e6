-- The host that a sandbox is on: a server adopts the sandboxes of its own node alone.
ALTER TABLE sandboxes ADD COLUMN node TEXT NOT NULL DEFAULT 'local';

-- The parts that are kept of a paused sandbox; null while it runs. A pause ends a run: started_at
-- is the last start, and ends_at the moment of the pause.
ALTER TABLE sandboxes ADD COLUMN paused TEXT CHECK (paused IN ('memory', 'filesystem'));

-- It holds the driver's record, of which the backend's launch record is a part. A paused sandbox
-- may have no launch record: then the record names an image.
ALTER TABLE sandboxes RENAME COLUMN launch_record TO driver_record;

CREATE INDEX living_sandboxes_of_a_node ON sandboxes (node) WHERE ended_at IS NULL;

-- Checkpoints that are kept under a name: copies are made of them until they are forgotten. They
-- outlive the sandbox that they were taken of, so its row is not referred to.
CREATE TABLE checkpoints (
    id            TEXT PRIMARY KEY NOT NULL,
    team          TEXT NOT NULL REFERENCES teams (id),
    sandbox       TEXT NOT NULL,
    template      TEXT NOT NULL,
    template_name TEXT NOT NULL,
    node          TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('memory', 'filesystem')),
    record        TEXT NOT NULL,
    bytes         INTEGER NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX checkpoints_of_a_team ON checkpoints (team, created_at DESC, id);
