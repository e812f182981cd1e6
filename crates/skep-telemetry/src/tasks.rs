//! Tasks that keep their span, report their panic, and end at shutdown.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Starts a task in the current span. A panic in it is logged and ends only the task.
///
/// For work that must be waited for at shutdown use [`Tasks::spawn`].
pub fn spawn<F>(name: &'static str, future: F) -> tokio::task::JoinHandle<Option<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the wrapper the lint points to"
    )]
    tokio::spawn(guarded(name, future).in_current_span())
}

/// Tasks that belong together and are waited for together.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Starts a task in the current span that [`Tasks::finish`] will wait for.
    pub fn spawn<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(
            async move {
                guarded(name, future).await;
            }
            .in_current_span(),
        );
    }

    /// Resolves when the tasks are asked to end.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Asks the tasks to end and waits until they have.
    pub async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

async fn guarded<F: Future>(name: &'static str, future: F) -> Option<F::Output> {
    // A task owns what it touches, so nobody sees the state that a panic left half-changed.
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(output) => Some(output),
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no message");
            tracing::error!(task = name, message, "task panicked");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_only_its_task() {
        assert_eq!(spawn("calm", async { 1 }).await.unwrap(), Some(1));
        let panicking = async {
            if true {
                panic!("as intended");
            }
        };
        assert_eq!(spawn("panicking", panicking).await.unwrap(), None);
    }

    #[tokio::test]
    async fn finishing_waits_for_every_task() {
        let tasks = Tasks::default();
        let stop = tasks.stopping();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tasks.spawn("patient", async move {
            stop.cancelled().await;
            sender.send(()).expect("the test waits");
        });
        tasks.finish().await;
        receiver.await.expect("the task ran to its end");
    }
}
