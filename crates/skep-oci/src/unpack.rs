//! Unpacking layers, in a process that can do nothing else.
//!
//! The server starts its own executable with the file of a layer as its input and the directory of
//! a draft as its working directory. That process confines itself ([`skep_launch::confine`]),
//! unpacks, and prints one line about it.

mod child;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod inherit;
mod layer;
mod members;
mod stream;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::error::PullReason;
use crate::room::{self, Room};

pub use child::unpack_layer;
pub(crate) use inherit::inherit_directories;

/// First argument of a process that unpacks a layer.
pub const UNPACK_LAYER: &str = "unpack-layer";

/// Text of the failure to which a caller is told the limit instead.
pub(crate) const TOO_LARGE: &str = "it is larger than the limit";

/// Time limit for one layer.
const UNPACK_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Interval at which a process that unpacks is looked after.
const GLANCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// No report is longer: it names at most [`MOST_IMPLIED`] directories.
const LONGEST_REPORT: u64 = 4 << 20;
/// Directories that an archive may leave out.
const MOST_IMPLIED: usize = 10_000;

/// Bounds of what a layer may unpack to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackLimits {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files, directories and links.
    pub members: u64,
    /// Bytes that one byte of a compressed layer may unpack to, beyond the first few.
    pub ratio: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            bytes: 20 << 30,
            members: 1_000_000,
            ratio: 200,
        }
    }
}

/// The program that unpacks layers: how to start it.
#[derive(Debug, Clone)]
pub struct Unpacker {
    executable: PathBuf,
    arguments: Vec<OsString>,
}

/// Result of unpacking a layer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unpacked {
    /// Digest of the archive.
    pub(crate) diff_id: String,
    /// Devices that were left out.
    pub(crate) devices: u64,
    /// Directories that the archive does not name, although something is in them.
    pub(crate) implied: Vec<String>,
}

/// A layer is not unpacked.
#[derive(Debug)]
pub(crate) enum UnpackError {
    /// The disk has no room for it.
    NoRoom,
    /// Something else, in words for the caller.
    Failed(String),
}

/// Last words of a process that unpacks.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Done(Unpacked),
    Failed(String),
}

/// Ends an unpacking that nobody waits for any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

/// Cancels when it is dropped.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Cancel);

impl Cancel {
    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Unpacker {
    /// Unpacks with `executable`, which is started with `arguments` and then calls [`unpack_layer`]
    /// with what follows them, before it starts any thread.
    pub fn new<A: Into<OsString>>(
        executable: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            executable: executable.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Unpacks the layer in the file `blob` into the empty directory `root`, for as long as the disk
    /// has `room`. That is looked at from here: the process knows no other file than its own. Blocks;
    /// the process dies with the calling thread.
    pub(crate) fn unpack(
        &self,
        blob: &Path,
        root: &Path,
        limits: UnpackLimits,
        room: Room,
        cancel: &Cancel,
    ) -> Result<Unpacked, UnpackError> {
        let disk = File::open(root).map_err(failed)?;
        let look = |bytes| match room.check(&disk, bytes) {
            Ok(()) => Ok(()),
            Err(PullReason::NoRoom) => Err(UnpackError::NoRoom),
            Err(error) => Err(UnpackError::Failed(error.to_string())),
        };
        let blob = File::open(blob).map_err(failed)?;
        let order = serde_json::to_string(&limits).map_err(|error| failed(error.into()))?;
        let mut child = Command::new(&self.executable)
            .args(&self.arguments)
            .arg(order)
            .current_dir(root)
            .env_clear()
            .stdin(blob)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let report = read_report(&mut child, cancel, || look(room::GLANCE));
        // It has said all that it has to say, or nobody listens any more.
        if let Err(error) = child.kill() {
            tracing::debug!(%error, "the unpacking process has ended by itself");
        }
        let status = child.wait().map_err(failed)?;
        match serde_json::from_slice(&report?) {
            Ok(Report::Done(unpacked)) => {
                // It may have been faster than the looks.
                look(0)?;
                Ok(unpacked)
            }
            Ok(Report::Failed(cause)) => Err(UnpackError::Failed(cause)),
            Err(_) => Err(UnpackError::Failed(format!(
                "the unpacking process ended without a word ({status})"
            ))),
        }
    }
}

/// The failure of what unpacks, and not of what is unpacked.
fn failed(error: io::Error) -> UnpackError {
    UnpackError::Failed(format!("the unpacking process failed: {error}"))
}

/// Everything that the process prints until it closes its output, or until a look at the disk fails.
fn read_report(
    child: &mut Child,
    cancel: &Cancel,
    look: impl Fn() -> Result<(), UnpackError>,
) -> Result<Vec<u8>, UnpackError> {
    let deadline = Instant::now() + UNPACK_TIMEOUT;
    let Some(output) = child.stdout.take() else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    loop {
        let mut descriptors = [PollFd::new(&output, PollFlags::IN)];
        match poll(&mut descriptors, Some(&GLANCE)) {
            Ok(0) if cancel.0.load(Ordering::Relaxed) => {
                return Err(failed(io::ErrorKind::Interrupted.into()));
            }
            Ok(0) if Instant::now() > deadline => {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            Ok(0) => look()?,
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(failed(error.into())),
        }
    }
    // It speaks once, at its end, so the rest is not long in coming.
    let mut report = Vec::new();
    let mut output = output.take(LONGEST_REPORT);
    output.read_to_end(&mut report).map_err(failed)?;
    Ok(report)
}
