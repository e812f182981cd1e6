-- The fate of a sandbox when its time is over, as it was ordered, and whether requests to it resume
-- it when it is paused. Those of older servers ended.
ALTER TABLE sandboxes ADD COLUMN on_timeout TEXT NOT NULL DEFAULT 'kill'
    CHECK (on_timeout IN ('kill', 'pause', 'pause_filesystem'));
ALTER TABLE sandboxes ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 0;
