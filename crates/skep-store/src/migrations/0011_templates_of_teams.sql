-- Templates that teams build. The id of one is stable for its team and name; each build is a version
-- of it, and is never changed once it is ready.
CREATE TABLE templates (
    id         TEXT PRIMARY KEY NOT NULL,
    team       TEXT NOT NULL,
    name       TEXT NOT NULL,
    public     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- The id of a deleted one never returns, its name may.
    deleted_at INTEGER
) STRICT;

CREATE UNIQUE INDEX templates_by_name ON templates (team, name) WHERE deleted_at IS NULL;

CREATE TABLE builds (
    id            TEXT PRIMARY KEY NOT NULL,
    template      TEXT NOT NULL REFERENCES templates (id),
    team          TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('waiting', 'building', 'ready', 'error')),
    cpus          INTEGER NOT NULL,
    memory_mib    INTEGER NOT NULL,
    disk_mib      INTEGER NOT NULL,
    pids          INTEGER NOT NULL,
    -- Of the request that started it, to know it again.
    digest        TEXT,
    -- What was ordered, as JSON, without credentials.
    ordered       TEXT,
    had_secrets   INTEGER NOT NULL DEFAULT 0,
    -- What it made, as JSON.
    result        TEXT,
    bytes         INTEGER,
    failure       TEXT,
    failure_phase TEXT,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    ended_at      INTEGER
) STRICT;

CREATE INDEX builds_of_a_template ON builds (template, created_at DESC);
CREATE INDEX builds_under_way ON builds (team) WHERE status IN ('waiting', 'building');

-- The history of tags: each row is an assignment, the newest of which with a ready build counts.
CREATE TABLE template_tags (
    number     INTEGER PRIMARY KEY,
    template   TEXT NOT NULL REFERENCES templates (id),
    tag        TEXT NOT NULL,
    build      TEXT NOT NULL REFERENCES builds (id),
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;

CREATE INDEX assignments_of_a_tag ON template_tags (template, tag, number DESC);
CREATE INDEX tags_of_a_build ON template_tags (build);

CREATE TABLE build_logs (
    build    TEXT NOT NULL REFERENCES builds (id),
    position INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    level    TEXT NOT NULL,
    phase    TEXT,
    message  TEXT NOT NULL,
    PRIMARY KEY (build, position)
) STRICT, WITHOUT ROWID;

-- Keys of the server itself, made when they are first needed.
CREATE TABLE server_keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT;
