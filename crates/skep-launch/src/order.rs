//! What a launcher is told.

use serde::{Deserialize, Serialize};

/// One message to a launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Carry a plan out. Comes with the file that holds it and the descriptors it refers to;
    /// for a launcher that stays, the socket for its report comes before them.
    CarryOut,
    /// Stay, and fork for every plan that comes.
    Stay,
}
