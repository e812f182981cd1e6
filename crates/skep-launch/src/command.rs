//! Messages to a launcher.

use serde::{Deserialize, Serialize};

use crate::{LaunchPlan, Network};

/// One message to a launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Carry a plan out. Comes with the file that holds it and the descriptors it refers to;
    /// for the fork server, the socket for its report comes before them.
    Launch {
        /// True if an empty network namespace of the host's is part of it, which the fork server
        /// may have made already.
        needs_network: bool,
    },
    /// Become the fork server: fork for every plan that comes.
    ServeForks,
    /// Write a tree of processes to an image. Comes with the file that holds the plan and the
    /// descriptors it refers to.
    Dump,
}

impl Command {
    /// Returns the command to carry out this plan.
    pub(crate) fn to_launch(plan: &LaunchPlan) -> Self {
        // Below a parent the namespace is the parent's.
        let needs_network = plan.network != Network::Host && plan.parent.is_none();
        Self::Launch { needs_network }
    }
}
