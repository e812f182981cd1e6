//! Help for tests: waiting for a condition instead of sleeping, and processes that do not die.

mod frozen;

use std::future::Future;
use std::time::{Duration, Instant};

pub use frozen::Frozen;

/// Asks `condition` again and again until it gives a value, and panics with the last status
/// when `deadline` has passed.
///
/// # Panics
///
/// If the condition does not hold in time.
#[track_caller]
pub fn wait_for<T, S: std::fmt::Display>(
    deadline: Duration,
    mut condition: impl FnMut() -> Result<T, S>,
) -> T {
    let start = Instant::now();
    loop {
        match condition() {
            Ok(value) => return value,
            Err(status) if start.elapsed() > deadline => {
                panic!("not so within {deadline:?}: {status}");
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "this is the wait the lint points to"
            )]
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// [`wait_for`] for conditions that are asynchronous.
///
/// # Panics
///
/// If the condition does not hold in time.
pub async fn wait_until<T, S, F>(deadline: Duration, mut condition: impl FnMut() -> F) -> T
where
    S: std::fmt::Display,
    F: Future<Output = Result<T, S>>,
{
    let start = Instant::now();
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(status) if start.elapsed() > deadline => {
                panic!("not so within {deadline:?}: {status}");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
