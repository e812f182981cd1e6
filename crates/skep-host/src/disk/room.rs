//! Room for copies of disks.
//!
//! Disks are sparse, and admission expects a sandbox to write little. A copy of a disk is as large as
//! all that was written to it, at once: a few snapshots, or sandboxes that are made of one, could fill
//! the file system, and everybody else's sandboxes would lose their writes. So a copy is made only if
//! it fits beside the reserve, together with all that are being made.

use std::io;
use std::os::fd::AsFd;

use parking_lot::Mutex;
use skep_types::Reserve;

/// The room on one file system.
#[derive(Debug)]
pub(super) struct CopyRoom {
    /// The part that copies leave free; `None` if they take all there is.
    reserve: Option<Reserve>,
    /// Bytes of the copies that are being made.
    under_way: Mutex<u64>,
}

/// Room for one copy, until this is dropped.
#[derive(Debug)]
pub struct CopyReservation<'a> {
    bytes: u64,
    of: &'a CopyRoom,
}

impl CopyRoom {
    pub(super) fn new(reserve: Option<Reserve>) -> Self {
        Self {
            reserve,
            under_way: Mutex::default(),
        }
    }

    /// Takes room for so many bytes on the file system of `file`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] if they would not fit.
    pub(super) fn take(&self, file: impl AsFd, bytes: u64) -> io::Result<CopyReservation<'_>> {
        let found = rustix::fs::fstatvfs(file)?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        self.take_of(free, total, bytes)
    }

    fn take_of(&self, free: u64, total: u64, bytes: u64) -> io::Result<CopyReservation<'_>> {
        let mut under_way = self.under_way.lock();
        let wanted = under_way.saturating_add(bytes);
        let fits = self
            .reserve
            .is_none_or(|reserve| wanted.saturating_add(reserve.of(total)) <= free);
        if !fits {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *under_way = wanted;
        Ok(CopyReservation { bytes, of: self })
    }
}

impl Drop for CopyReservation<'_> {
    fn drop(&mut self) {
        *self.of.under_way.lock() -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn copies_that_fit_one_by_one_and_not_together_are_not_made_together() {
        let room = CopyRoom::new(Some(Reserve::Bytes(GIB)));
        let take = |bytes| room.take_of(20 * GIB, 100 * GIB, bytes);
        let first = take(10 * GIB).unwrap();
        let refused = take(10 * GIB).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        let _small = take(9 * GIB).unwrap();
        drop(first);
        let _second = take(10 * GIB).unwrap();
    }

    #[test]
    fn without_a_reserve_nothing_is_refused() {
        let room = CopyRoom::new(None);
        let _all = room.take_of(GIB, GIB, 2 * GIB).unwrap();
    }
}
