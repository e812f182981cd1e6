CREATE TABLE teams (
    id            TEXT PRIMARY KEY NOT NULL,
    slug          TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    is_default    INTEGER NOT NULL DEFAULT 0,
    max_sandboxes INTEGER,
    max_lifetime  INTEGER,
    standing      TEXT NOT NULL DEFAULT 'good' CHECK (standing IN ('good', 'blocked', 'banned')),
    block_reason  TEXT,
    created_at    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX the_default_team ON teams (is_default) WHERE is_default = 1;

CREATE TABLE keys (
    id           TEXT PRIMARY KEY NOT NULL,
    team         TEXT NOT NULL REFERENCES teams (id),
    name         TEXT NOT NULL,
    hash         TEXT NOT NULL UNIQUE,
    value_length INTEGER NOT NULL,
    mask_prefix  TEXT NOT NULL,
    mask_suffix  TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used    INTEGER
) STRICT;

CREATE INDEX keys_of_a_team ON keys (team, created_at);

-- Rows of ended sandboxes stay until they are pruned; see 0003. Until then an id is taken.
CREATE TABLE sandboxes (
    id                TEXT PRIMARY KEY NOT NULL,
    team              TEXT NOT NULL REFERENCES teams (id),
    template          TEXT NOT NULL,
    template_name     TEXT NOT NULL,
    access_token      TEXT,
    internet          INTEGER,
    cpus              INTEGER NOT NULL,
    memory_mib        INTEGER NOT NULL,
    disk_mib          INTEGER NOT NULL,
    pids              INTEGER NOT NULL,
    lifetime          INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    execution         TEXT,
    launch_record     TEXT,
    started_at        INTEGER,
    ends_at           INTEGER,
    ended_at          INTEGER,
    end_reason        TEXT,
    cpu_time          INTEGER,
    memory_bytes      INTEGER,
    cache_bytes       INTEGER,
    memory_peak_bytes INTEGER,
    disk_bytes        INTEGER,
    pids_at_end       INTEGER,
    oom_kills         INTEGER
) STRICT;

CREATE INDEX living_sandboxes ON sandboxes (team) WHERE ended_at IS NULL;
CREATE INDEX sandboxes_of_a_team ON sandboxes (team, created_at DESC, id);
CREATE INDEX sandboxes_by_age ON sandboxes (created_at DESC, id);

CREATE TABLE sandbox_metadata (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id),
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (sandbox, key)
) STRICT, WITHOUT ROWID;
