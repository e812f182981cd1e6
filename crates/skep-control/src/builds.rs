//! The port through which control has templates built.

mod fake;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use skep_types::{BuildFailure, BuildId, BuildLogEntry, BuildOrder, BuiltTemplate, LayerKey};

pub use fake::FakeBuilds;

/// Port that builds templates.
pub trait Builds: fmt::Debug + Send + Sync {
    /// Takes an order and carries it out, whatever becomes of the caller.
    ///
    /// Everything that happens is told to `reports`, and exactly one end is, also if the order
    /// cannot be begun.
    fn start(&self, order: BuildOrder, reports: Arc<dyn BuildReports>);

    /// Ends a build that runs. Its end is reported as of any other; a build that is over or
    /// unknown is none to end.
    fn cancel(&self, build: BuildId);

    /// Removes what builds have made or fetched that was not used since `before`, apart from the
    /// `needed` layers and what running builds use. Returns the bytes of the layers.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being looked at.
    fn collect(
        &self,
        needed: HashSet<LayerKey>,
        before: SystemTime,
    ) -> BoxFuture<'_, Result<u64, CollectError>>;
}

/// Failure to remove what nobody needs. It stays until the next time.
#[derive(Debug, thiserror::Error)]
#[error("cannot collect what builds have left")]
pub struct CollectError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Listener that is told what happens to a build.
pub trait BuildReports: fmt::Debug + Send + Sync {
    /// A line of its log.
    fn log(&self, build: BuildId, entry: BuildLogEntry);

    /// Its end. Nothing is logged after it.
    fn end(&self, build: BuildId, result: Result<BuiltTemplate, BuildFailure>);
}
