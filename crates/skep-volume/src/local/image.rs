//! Files that hold the filesystem of a volume.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::VolumeError;

const MIB: u64 = 1 << 20;
/// A filesystem needs some of the space for itself: an inode of 256 bytes for each 8 KiB, a
/// journal, and a little more.
const INODE_RATIO: &str = "8192";
const OVERHEAD_PERCENT: u64 = 5;
const OVERHEAD: u64 = 32 * MIB;
const JOURNAL: &str = "size=16";

/// Owner of the root of a volume: `user` of a sandbox.
pub(super) const OWNER: u32 = 1000;

/// A new, empty file that nobody else can read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// Makes a filesystem on which `mebibytes` can be written, in a new file, and brings it to the disk.
///
/// It has a journal, unlike a sandbox's disk: it is to be whole after a crash of the host. And it
/// becomes read-only, rather than less than it was, if the host's disk refuses a write.
pub(super) fn make(path: &Path, mebibytes: u32) -> Result<(), VolumeError> {
    let wanted = u64::from(mebibytes) * MIB;
    let bytes = wanted + wanted * OVERHEAD_PERCENT / 100 + OVERHEAD;
    let sized = create(path).and_then(|image| {
        image.set_len(bytes)?;
        Ok(image)
    });
    let image = sized.map_err(VolumeError::host("make the file of a volume"))?;
    let output = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-i", INODE_RATIO])
        .args([
            "-J",
            JOURNAL,
            "-e",
            "remount-ro",
            "-O",
            "^resize_inode",
            "-E",
        ])
        .arg("lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(VolumeError::NoTool)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(VolumeError::Tool(said.trim().chars().take(256).collect()));
    }
    image.sync_all().map_err(VolumeError::host("sync a volume"))
}
