//! The removal of an installation.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use skep_host::Kind;

use crate::dismantle::dismantle;
use crate::{Action, InstallError, Installation, Plan, cache_users, directories, plan};

/// Time limit for the kernel to release the last loop device.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two looks at it meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Takes an installation off the host, everything in order, the data last: what is left after a failure is found by the next run.
///
/// # Errors
///
/// [`InstallError`]; it can be run again.
pub async fn uninstall(installation: &Installation, plan: &Plan) -> Result<(), InstallError> {
    let data_dir = installation
        .data_dir
        .canonicalize()
        .unwrap_or_else(|_| installation.data_dir.clone());
    if plan.is_on_host() {
        dismantle(&installation.data_dir).await?;
    }
    unmount_below(&installation.data_dir, plan)?;
    nothing_is_left(&installation.data_dir).await?;
    for row in plan.rows.iter().filter(|row| row.action == Action::Remove) {
        if let Some(path) = &row.path {
            directories::remove(path)?;
        }
    }
    if installation.keep_data {
        return Ok(());
    }
    cache_users::unregister(&installation.cache_dir, &data_dir).map_err(InstallError::failure)
}

fn unmount_below(data_dir: &Path, plan: &Plan) -> Result<(), InstallError> {
    let found = plan::footprint_of(data_dir)?;
    let mut points: Vec<&str> = found
        .items
        .iter()
        .filter(|item| item.kind == Kind::Mount)
        .map(|item| item.name.as_str())
        .collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.len()));
    for point in points {
        rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).map_err(
            |error| {
                InstallError::failure(io::Error::from(error)).hint(format!(
                    "`{point}` is mounted in `{}`",
                    plan.data_dir.display()
                ))
            },
        )?;
    }
    Ok(())
}

/// Waits until the host has nothing of this installation. The kernel lets go of a loop device
/// a moment after its last mount.
async fn nothing_is_left(data_dir: &Path) -> Result<(), InstallError> {
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    loop {
        let left: Vec<String> = plan::footprint_of(data_dir)?
            .items
            .iter()
            .filter(|item| item.stays.is_none())
            .map(|item| format!("{} `{}`", item.kind.name(), item.name))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let left = format!("this is left: {}", left.join(", "));
            let hint = "the data was not touched; run it again";
            return Err(InstallError::failure(left).hint(hint));
        }
        tokio::time::sleep(LOOK).await;
    }
}
