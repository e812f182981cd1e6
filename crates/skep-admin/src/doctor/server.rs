//! The same checks for a server that runs, which shows them in its console.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_api::HostChecks;
use skep_config::Config;
use skep_types::Check;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Time for which what was found is told again: a look launches a sandbox, and a page that is open asks often.
const FRESH: Duration = Duration::from_secs(60);
/// Longest wait of a caller. A host whose disk hangs answers no check.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// Results of a look, or why there are none, and when it ended.
type Found = Option<(Instant, Result<Vec<Check>, String>)>;

/// The checks of `skep doctor`, one look at a time.
#[derive(Debug)]
pub struct Doctor {
    config: Config,
    found: Arc<Mutex<Found>>,
}

impl Doctor {
    /// Checks for a server of that configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            found: Arc::default(),
        }
    }

    async fn look_now(&self) -> Result<Vec<Check>, String> {
        let config = self.config.clone();
        let look = move || super::look(&config).map_err(|error| error.source.to_string());
        self.look_by(look).await
    }

    async fn look_by(
        &self,
        look: impl FnOnce() -> Result<Vec<Check>, String> + Send + 'static,
    ) -> Result<Vec<Check>, String> {
        let mut found = Arc::clone(&self.found).lock_owned().await;
        if let Some((at, checks)) = found.as_ref()
            && at.elapsed() < FRESH
        {
            return checks.clone();
        }
        // The thread holds the lock until it is done, so that callers who give up start no second look.
        let look = tokio::task::spawn_blocking(move || {
            let checks = look();
            // A look that failed is remembered, too: the next one would cost as much.
            *found = Some((Instant::now(), checks.clone()));
            checks
        });
        look.await.map_err(|error| error.to_string())?
    }
}

impl HostChecks for Doctor {
    fn look(&self) -> BoxFuture<'_, Result<Vec<Check>, String>> {
        let limited = timeout(LONGEST_LOOK, self.look_now());
        let seconds = LONGEST_LOOK.as_secs();
        limited
            .map(move |found| {
                found.unwrap_or_else(|_| Err(format!("no answer within {seconds} s")))
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_that_failed_is_not_taken_again_at_once() {
        let doctor = Doctor::new(&Config::default());
        let first = doctor.look_by(|| Err("no disk".to_owned())).await;
        assert_eq!(first, Err("no disk".to_owned()));
        let second = doctor.look_by(|| panic!("a second look")).await;
        assert_eq!(second, first);
    }
}
