//! Room on the host's disk, of which sandboxes leave a part free.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use skep_types::Reserve;

/// Bytes that are written before room is looked for again.
const GLANCE: u64 = 16 << 20;

/// A file that is written only while more than the reserve is free on its disk.
#[derive(Debug)]
pub(crate) struct Careful<F = File> {
    file: F,
    reserve: Option<Reserve>,
    /// Bytes that may be written before the next look.
    found: u64,
}

impl<F: AsFd> Careful<F> {
    /// Writes to `file` within what `reserve` leaves; all there is for `None`.
    pub(crate) fn new(file: F, reserve: Option<Reserve>) -> Self {
        Self {
            file,
            reserve,
            found: 0,
        }
    }

    /// Fails with [`io::ErrorKind::StorageFull`] if so many bytes more would not leave the reserve.
    pub(crate) fn check(&self, bytes: u64) -> io::Result<()> {
        let Some(reserve) = self.reserve else {
            return Ok(());
        };
        let found = rustix::fs::fstatvfs(&self.file)?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if bytes.saturating_add(reserve.of(total)) <= free {
            Ok(())
        } else {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    pub(crate) fn file(&self) -> &F {
        &self.file
    }

    pub(crate) fn into_file(self) -> F {
        self.file
    }
}

impl<F: AsFd + Write> Write for Careful<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wanted = bytes.len() as u64;
        if wanted > self.found {
            self.check(GLANCE.max(wanted))?;
            self.found = GLANCE.max(wanted);
        }
        let written = self.file.write(bytes)?;
        self.found = self.found.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
