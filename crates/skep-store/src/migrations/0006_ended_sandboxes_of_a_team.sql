-- How many ended sandboxes each team has, and which are its oldest: they are forgotten by team.
CREATE INDEX ended_sandboxes_of_a_team ON sandboxes (team, ended_at) WHERE ended_at IS NOT NULL;
