//! Sandboxes that went to the disk and came back.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use skep_checkpoint::Criu;

use crate::product::{Product, TIMEOUT};
use crate::suite::cache;
use crate::target::Target;

/// Time limit for a sandbox to be written to the disk.
const STORED: Duration = Duration::from_secs(120);

/// Prints its number and lives through the image, so that a sandbox that was started anew is told from
/// one that was restored.
const SLEEPER: &str = "setsid sleep 86399 </dev/null >/dev/null 2>&1 & echo $!";

/// Makes sure that servers which are started from now on find CRIU, which needs the host's network.
/// Returns false on hosts with cgroup v2: those of the tests are emulated, and too slow for each
/// attack to be made twice.
pub(crate) fn fetch_criu() -> bool {
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return false;
    }
    let data = tempfile::tempdir().unwrap();
    let fetching = Command::new(env!("CARGO_BIN_EXE_skep"))
        .args(["doctor", "--fetch", "--data-dir"])
        .arg(data.path())
        .output();
    let said = fetching.unwrap();
    let fetched = Criu::fetched_in(&cache());
    if let Err(error) = Criu::find(&fetched, &data.path().join("criu")) {
        panic!("no criu: {error}: {said:?}");
    }
    true
}

/// Returns true if every sandbox is to be restored before it is used, and not only one for the
/// attacks that are programs.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
pub(crate) fn all() -> bool {
    std::env::var_os("SKEP_ATTACKS_RESTORED").is_some_and(|all| all == "true")
}

/// Has a sandbox written to the disk, where nothing else of it is left, and restored from there.
pub(crate) async fn sleep_and_wake(product: &Product, target: &Target) {
    let sleeper = target.shell(SLEEPER).await;
    let agents = product.agents(&target.id);
    sleep(product, target).await;
    target.sandbox().resume(Some(TIMEOUT)).await.unwrap();
    assert_ne!(product.agents(&target.id), agents, "it has other processes");
    // Fails if it is not there.
    let end = format!("kill {}", sleeper.trim());
    target.shell(&end).await;
}

/// Has a sandbox written to the disk, where nothing else of it is left.
pub(crate) async fn sleep(product: &Product, target: &Target) {
    target.sandbox().pause(true).await.unwrap();
    let directory = product.data().join("sandboxes").join(&target.id);
    skep_testkit::wait_until(STORED, async || {
        if directory.exists() {
            Err("it has processes")
        } else {
            Ok(())
        }
    })
    .await;
}
