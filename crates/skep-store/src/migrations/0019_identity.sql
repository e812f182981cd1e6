-- Identity tokens that header rules of a sandbox may name: audiences by name, as JSON. NULL is none.
ALTER TABLE sandboxes ADD COLUMN identity_tokens TEXT;

-- Keys that sign identity tokens. The key itself is sealed by one that is not in this database.
CREATE TABLE identity_keys (
    id TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
