//! The sandbox that the agent is in: its settings, users and paths, what its processes say and
//! what they use.

pub(crate) mod identifier;
pub(crate) mod log;
pub(crate) mod memory_info;
pub(crate) mod metrics;
pub(crate) mod path;
pub(crate) mod settings;
pub(crate) mod trust;
pub(crate) mod users;
