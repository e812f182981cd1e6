-- Secrets of teams. A value is sealed by a key that is not in this database.
CREATE TABLE secrets (
    id TEXT PRIMARY KEY,
    team TEXT NOT NULL REFERENCES teams (id),
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (team, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE secret_metadata (
    secret TEXT NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (secret, key)
) STRICT, WITHOUT ROWID;
