-- Time from which a version cannot be asked for any more. What is left of it goes later, when nothing can
-- have been made of it in the meantime.
ALTER TABLE builds ADD COLUMN removed_at INTEGER;
