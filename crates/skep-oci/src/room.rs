//! Room on the host's disk, of which images leave a part free.

use std::os::fd::AsFd;

use skep_types::Reserve;

use crate::error::PullReason;

/// Bytes that are written between two looks, and so have to fit, too.
pub(crate) const GLANCE: u64 = 16 << 20;

/// The part of the disk that images leave free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room(pub(crate) Option<Reserve>);

impl Room {
    /// Fails if so many bytes more would not leave the reserve of the disk that `file` is on.
    pub(crate) fn check(self, file: impl AsFd, bytes: u64) -> Result<(), PullReason> {
        let Some(reserve) = self.0 else {
            return Ok(());
        };
        let found = rustix::fs::fstatvfs(file)
            .map_err(|errno| PullReason::system("look at the disk")(errno.into()))?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if bytes.saturating_add(reserve.of(total)) <= free {
            Ok(())
        } else {
            Err(PullReason::NoRoom)
        }
    }
}
