-- Digests of keys that were revoked. None of them is ever taken again, wherever it turns up: the
-- local operator's key lies in a file, too, from which a server that starts registers it.
CREATE TABLE revoked_keys (
    hash       TEXT PRIMARY KEY NOT NULL,
    revoked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
