//! Events on their way out: the dispatcher sends what is due to the webhooks of teams, signed, and again
//! if need be.
//!
//! Nobody waits for a receiver. Events are recorded with their deliveries, and the dispatcher reads those;
//! a server that dies sends again whatever it had not noted as delivered.

mod backoff;
mod clock;
mod dispatcher;
mod sender;
mod signature;

pub use backoff::Backoff;
pub use clock::{Clock, SystemClock};
pub use dispatcher::{Dispatcher, DispatcherOptions, Render};
