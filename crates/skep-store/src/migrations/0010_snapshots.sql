-- Nobody could take a checkpoint that is kept before, so the table is made anew: with what makes one
-- a template, its limits, and its place in the history of its sandbox.
DROP TABLE checkpoints;

CREATE TABLE checkpoints (
    id            TEXT PRIMARY KEY NOT NULL,
    team          TEXT NOT NULL REFERENCES teams (id),
    -- The id under which it is a template: the same for all tags of a name.
    snapshot      TEXT NOT NULL,
    name          TEXT,
    tag           TEXT NOT NULL,
    parent        TEXT,
    sandbox       TEXT NOT NULL,
    template      TEXT NOT NULL,
    template_name TEXT NOT NULL,
    node          TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('memory', 'filesystem')),
    record        TEXT NOT NULL,
    bytes         INTEGER NOT NULL,
    cpus          INTEGER NOT NULL,
    memory_mib    INTEGER NOT NULL,
    disk_mib      INTEGER NOT NULL,
    pids          INTEGER NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX checkpoints_by_tag ON checkpoints (team, snapshot, tag);
CREATE INDEX checkpoints_of_a_team ON checkpoints (team, created_at DESC, id);

-- The checkpoint that a sandbox was made of, put back to, or taken at last; and the name of the
-- template below it all, which is another than its own if it was made of a snapshot.
ALTER TABLE sandboxes ADD COLUMN checkpoint TEXT;
ALTER TABLE sandboxes ADD COLUMN base TEXT;
