//! What it takes to look into the requests of sandboxes whose rules say so.

use std::fmt;
use std::sync::Arc;

use skep_domain::EgressCa;

use crate::HeaderValues;

/// What it takes to look into the requests of sandboxes whose rules say so.
#[derive(Clone)]
pub struct Inspection {
    /// Vouches for what sandboxes are shown in place of hosts.
    pub authority: Arc<EgressCa>,
    /// Certificates of the authorities by which hosts are verified, in PEM.
    pub roots: Arc<str>,
    /// Knows what is put into headers.
    pub values: Arc<dyn HeaderValues>,
}

impl fmt::Debug for Inspection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Inspection")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}
