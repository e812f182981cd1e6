//! The sandboxes of this host.
//!
//! Each sandbox is owned by one driver task. Everybody else sends it requests over a bounded
//! queue and watches the status it publishes, so no two parts ever disagree about the phase of
//! a sandbox, and nobody holds a lock while something is launched or destroyed.
//!
//! The node knows nothing of teams, keys or HTTP.

mod admission;
mod adopt;
mod agents;
mod clock;
mod departures;
mod driver;
mod exposition;
mod host;
mod journal;
mod layers;
mod log;
mod memory_mean;
mod metrics;
mod node;
mod record;
mod route;
mod spares;
mod transitions;

pub use admission::{NoRoom, Reservation};
pub use adopt::Adoption;
pub use agents::{Agents, ConfigureError, StartCommandError};
pub use clock::Deadline;
pub use host::HostReport;
pub use journal::{Journal, MemoryJournal, Noted};
pub use layers::Layers;
pub use metrics::Metrics;
pub use node::{CreateError, Node, NodeOptions, PausePolicy, SpareCounts};
pub use route::Route;
