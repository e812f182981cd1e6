-- The version of its template that a sandbox is of, and what an update of it has changed: the deadline
-- that it has since then, or the rules for what leaves it. Older events have neither.
ALTER TABLE events ADD COLUMN base TEXT;
ALTER TABLE events ADD COLUMN ends_at INTEGER;
ALTER TABLE events ADD COLUMN network TEXT;
