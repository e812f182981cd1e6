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

/// Results of a look, and when it ended.
type Found = Option<(Instant, Vec<Check>)>;

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
        let mut found = Arc::clone(&self.found).lock_owned().await;
        if let Some((at, checks)) = found.as_ref()
            && at.elapsed() < FRESH
        {
            return Ok(checks.clone());
        }
        let config = self.config.clone();
        // The thread holds the lock until it is done, so that callers who give up start no second look.
        let look = tokio::task::spawn_blocking(move || {
            let checks = super::look(&config).map_err(|error| error.source.to_string())?;
            *found = Some((Instant::now(), checks.clone()));
            Ok(checks)
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
