-- Webhooks of teams. The secret that signs is sealed by a key that is not in this database.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    team TEXT NOT NULL REFERENCES teams (id),
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    is_enabled INTEGER NOT NULL CHECK (is_enabled IN (0, 1)),
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX webhooks_of_a_team ON webhooks (team, created_at);

-- The kinds of events that a webhook is told.
CREATE TABLE webhook_kinds (
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    PRIMARY KEY (webhook, kind)
) STRICT, WITHOUT ROWID;

-- Events on their way to webhooks. A row is written in the transaction of its event and goes with it,
-- or with its webhook.
CREATE TABLE deliveries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
    status TEXT NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
    -- Attempts of all times, and those since it was last asked for.
    attempts INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    -- Time of the next attempt of one that is pending.
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX deliveries_due ON deliveries (webhook, due_at) WHERE status = 'pending';
CREATE INDEX deliveries_of_a_webhook ON deliveries (webhook, status, seq);
CREATE INDEX deliveries_of_an_event ON deliveries (event);

CREATE TABLE delivery_attempts (
    delivery INTEGER NOT NULL REFERENCES deliveries (seq) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- In microseconds.
    duration INTEGER NOT NULL,
    -- What the receiver answered, if it did, and what went wrong, if anything did.
    answer INTEGER,
    failure TEXT,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;
