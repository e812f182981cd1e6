//! One file per endpoint, or per pair of generations of one.

pub(crate) mod access_tokens;
pub(crate) mod api_keys;
pub(crate) mod connect;
pub(crate) mod create_sandbox;
pub(crate) mod fork;
pub(crate) mod get_sandbox;
pub(crate) mod health;
pub(crate) mod kill_sandbox;
pub(crate) mod list_records;
pub(crate) mod list_sandboxes;
pub(crate) mod list_teams;
pub(crate) mod list_templates;
pub(crate) mod not_yet;
pub(crate) mod pause;
pub(crate) mod refresh;
pub(crate) mod resume;
pub(crate) mod rollback;
pub(crate) mod sandbox_logs;
pub(crate) mod sandbox_metrics;
pub(crate) mod server_metrics;
pub(crate) mod set_timeout;
pub(crate) mod snapshots;
pub(crate) mod team_metrics;
pub(crate) mod template_alias;
