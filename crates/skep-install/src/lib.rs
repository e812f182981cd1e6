//! An installation on this host: its data directory, its agents, the template cache that it shares with others,
//! and how everything that a server leaves is taken off the host again.

mod agents;
mod cache_users;
mod data_dir;
mod directories;
mod dismantle;
mod error;
mod plan;
mod server;
mod uninstall;

pub use agents::{AgentBuild, AgentsError, install_agent, prune_agents};
pub use cache_users::register;
pub use data_dir::{prepare, trust_dir, vault_key_file};
pub use dismantle::{dismantle, remove};
pub use error::{Cause, InstallError};
pub use plan::{Action, Installation, Plan, Row};
pub use server::{still_runs, stop};
pub use uninstall::uninstall;
