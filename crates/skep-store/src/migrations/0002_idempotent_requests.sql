-- Which sandbox a repeated creation request means. Rows are dropped after a day.
CREATE TABLE idempotent_requests (
    team       TEXT NOT NULL REFERENCES teams (id),
    key        TEXT NOT NULL,
    request    TEXT NOT NULL,
    sandbox    TEXT NOT NULL REFERENCES sandboxes (id),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (team, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotent_requests_by_age ON idempotent_requests (created_at);
