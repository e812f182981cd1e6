-- Ended sandboxes are forgotten after a time, the oldest first. Until then their ids are taken;
-- afterwards only chance, with a hundred bits against it, could bring one back.
CREATE INDEX ended_sandboxes ON sandboxes (ended_at) WHERE ended_at IS NOT NULL;
