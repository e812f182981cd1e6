//! Messages to a launcher.

use serde::{Deserialize, Serialize};

use crate::{LaunchPlan, Network};

/// One message to a launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Carry a plan out. Comes with the file that holds it and the descriptors it refers to;
    /// for a launcher that stays, the socket for its report comes before them.
    CarryOut {
        /// True if an empty network namespace of the host's is part of it, which a launcher that
        /// stays may have made already.
        needs_network: bool,
    },
    /// Stay, and fork for every plan that comes.
    Stay,
}

impl Order {
    /// Returns the order to carry out this plan.
    pub(crate) fn to_carry_out(plan: &LaunchPlan) -> Self {
        // Below a parent the namespace is the parent's.
        let needs_network = plan.network != Network::Host && plan.parent.is_none();
        Self::CarryOut { needs_network }
    }
}
