//! The part of the disk that the archives of one team may take.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_control::UploadError;
use skep_types::TeamId;

use super::entries;

/// Largest archives that a team may have at a time.
const ARCHIVES: u64 = 2;
/// Size as which the smallest archive counts, so that their number is bounded, too.
const LEAST: u64 = 256 << 10;
/// Bytes that are held at a time for an archive whose size nobody knows.
const STEP: u64 = 16 << 20;

/// Bytes of archives that are on their way, by team. Clones are the same. The lock is held for
/// sums alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares(Arc<Mutex<HashMap<TeamId, u64>>>);

/// Bytes of a team's share that are held for an archive on its way, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Shares,
    team: TeamId,
    /// Directory of the team's archives.
    directory: PathBuf,
    /// Size of the largest archive.
    largest: u64,
    held: u64,
}

impl Shares {
    /// Begins to hold, nothing yet, for an archive of a team.
    pub(super) fn begin(&self, team: &TeamId, directory: PathBuf, largest: u64) -> Share {
        Share {
            shares: self.clone(),
            team: team.clone(),
            directory,
            largest,
            held: 0,
        }
    }
}

impl Share {
    /// Holds enough for an archive of which so many bytes are here, and nobody knows how many come.
    pub(super) fn hold_more(&mut self, bytes: u64) -> Result<(), UploadError> {
        if bytes <= self.held {
            return Ok(());
        }
        self.hold(bytes.saturating_add(STEP).min(self.largest))
    }

    /// Holds enough for an archive of so many bytes.
    ///
    /// What is on its way is added before what is kept is looked at, so that of two that do not fit
    /// together one at least is refused.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), UploadError> {
        let more = bytes.max(LEAST).saturating_sub(self.held);
        let on_the_way = {
            let mut shares = self.shares.0.lock();
            let sum = shares.entry(self.team.clone()).or_default();
            *sum += more;
            *sum
        };
        self.held += more;
        let limit = self.largest.saturating_mul(ARCHIVES);
        let kept = self.kept().map_err(UploadError::Failed)?;
        if kept.saturating_add(on_the_way) > limit {
            return Err(UploadError::TeamFull { limit });
        }
        Ok(())
    }

    fn kept(&self) -> io::Result<u64> {
        let mut sum: u64 = 0;
        for archive in entries(&self.directory)? {
            match archive.metadata() {
                Ok(found) => sum = sum.saturating_add(found.len().max(LEAST)),
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sum)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.0.lock();
        if let Some(sum) = shares.get_mut(&self.team) {
            *sum -= self.held;
            if *sum == 0 {
                shares.remove(&self.team);
            }
        }
    }
}
