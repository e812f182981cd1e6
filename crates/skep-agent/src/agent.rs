//! What all requests share.

use std::sync::Arc;

use crate::filesystem::watch::Watchers;
use crate::metrics::Meter;
use crate::process::{Processes, WorkPlace};
use crate::settings::Settings;

/// The state of the agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) processes: Arc<Processes>,
    pub(crate) place: Arc<WorkPlace>,
    pub(crate) watchers: Watchers,
    pub(crate) meter: Meter,
    /// Where programs find out in which sandbox they run.
    pub(crate) identity_folder: String,
}
