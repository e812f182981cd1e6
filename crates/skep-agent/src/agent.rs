//! State that all requests share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::filesystem::watch::Watchers;
use crate::process::{Processes, Spawner};
use crate::sandbox::metrics::Meter;
use crate::sandbox::settings::Settings;

/// Listings that are made at a time; the others wait.
pub(crate) const LISTINGS: usize = 1;

/// The state of the agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) processes: Arc<Processes>,
    pub(crate) spawner: Arc<Spawner>,
    pub(crate) watchers: Watchers,
    /// Limits how many listings are made at a time: one may take much of the agent's memory.
    pub(crate) listings: Arc<Semaphore>,
    pub(crate) meter: Meter,
    /// Directory whose files tell programs in which sandbox they run.
    pub(crate) identity_directory: String,
}
