-- What happened to sandboxes, in the order of `seq`, which never goes back. A row is written in the
-- transaction of the change that it tells of, and outlives the row of its sandbox.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    team TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    execution TEXT NOT NULL,
    template TEXT NOT NULL,
    kind TEXT NOT NULL
        CHECK (kind IN ('created', 'paused', 'resumed', 'updated', 'checkpointed', 'killed')),
    at INTEGER NOT NULL,
    -- Begin of the run, and what it may use.
    started_at INTEGER NOT NULL,
    cpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    -- Of one that ended.
    end_reason TEXT
) STRICT;

CREATE INDEX events_of_a_team ON events (team, seq);
CREATE INDEX events_of_a_sandbox ON events (sandbox, seq);
