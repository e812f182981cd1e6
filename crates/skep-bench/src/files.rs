//! A file into a sandbox and out of it, beside `cp` on the same disk.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use skep_client::Files;

use crate::bench::Bench;
use crate::error::{BenchError, local};
use crate::measurement::Series;
use crate::processes::peak;
use crate::sandbox::{LONGEST, Sandbox, in_time};

pub(crate) const UPLOAD: Series = Series::seconds("files.upload", "upload");
pub(crate) const DOWNLOAD: Series = Series::seconds("files.download", "download");
pub(crate) const COPY: Series = Series::seconds("files.copy", "`cp` on the same disk");
const SERVER_BEFORE: Series = Series::bytes(
    "files.server_peak_before",
    "most memory the server had, before",
);
const SERVER_AFTER: Series = Series::bytes(
    "files.server_peak_after",
    "most memory the server had, after",
);
const AGENT_BEFORE: Series = Series::bytes(
    "files.agent_peak_before",
    "most memory the agent had, before",
);
const AGENT_AFTER: Series =
    Series::bytes("files.agent_peak_after", "most memory the agent had, after");

/// Path of the file in the sandbox.
const PATH: &str = "/home/user/skep-bench";
const PIECE: usize = 256 << 10;

/// The files on this side.
struct TestFiles {
    source: PathBuf,
    copied: PathBuf,
    fetched: PathBuf,
    bytes: u64,
}

pub(crate) async fn measure(bench: &mut Bench<'_>, mebibytes: u32) -> Result<(), BenchError> {
    let local_files = TestFiles::make(&bench.scratch, u64::from(mebibytes) << 20)?;
    let measured = measure_in(bench, &local_files).await;
    measured.and(local_files.remove())
}

async fn measure_in(bench: &mut Bench<'_>, local_files: &TestFiles) -> Result<(), BenchError> {
    let sandbox = bench.create().await?;
    sandbox.ready().await?;
    record_peaks(bench, &sandbox, SERVER_BEFORE, AGENT_BEFORE)?;
    for round in bench.all_rounds() {
        bench.begin_round(round);
        // What the step before left to be written is not the next one's to wait for.
        rustix::fs::sync();
        bench.time(COPY, async { copy(local_files) }).await?;
        rustix::fs::sync();
        bench
            .time(UPLOAD, upload(&sandbox.files(), local_files))
            .await?;
        rustix::fs::sync();
        bench
            .time(DOWNLOAD, download(&sandbox.files(), local_files))
            .await?;
        compare(&local_files.source, &local_files.fetched)?;
    }
    record_peaks(bench, &sandbox, SERVER_AFTER, AGENT_AFTER)?;
    bench.kill(&sandbox).await
}

fn record_peaks(
    bench: &mut Bench<'_>,
    sandbox: &Sandbox,
    server: Series,
    agent: Series,
) -> Result<(), BenchError> {
    let Some(own) = &bench.own else {
        return Ok(());
    };
    let looked = || local("look at", "/proc");
    let server_peak = peak(own.pid()).map_err(looked())?;
    let agents = own
        .group(&sandbox.id)?
        .agent_of(&sandbox.id)
        .map_err(looked())?;
    bench.recorder.warm_up(false);
    bench.recorder.add_bytes(server, server_peak);
    for pid in agents {
        let agent_peak = peak(pid).map_err(looked())?;
        bench.recorder.add_bytes(agent, agent_peak);
    }
    Ok(())
}

impl TestFiles {
    /// Makes a file that no disk can shorten and no cache has seen.
    fn make(directory: &Path, bytes: u64) -> Result<Self, BenchError> {
        let local_files = Self {
            source: directory.join("skep-bench-source"),
            copied: directory.join("skep-bench-copied"),
            fetched: directory.join("skep-bench-fetched"),
            bytes,
        };
        let failed = || local("write", &local_files.source);
        let mut file = File::create(&local_files.source).map_err(failed())?;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut piece = Vec::with_capacity(PIECE);
        let mut left = bytes;
        while left > 0 {
            piece.clear();
            while piece.len() < PIECE {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                piece.extend_from_slice(&state.to_le_bytes());
            }
            let length = left.min(PIECE as u64);
            piece.truncate(usize::try_from(length).expect("a piece fits into memory"));
            file.write_all(&piece).map_err(failed())?;
            left -= length;
        }
        Ok(local_files)
    }

    fn remove(self) -> Result<(), BenchError> {
        for path in [self.source, self.copied, self.fetched] {
            if path.exists() {
                std::fs::remove_file(&path).map_err(local("remove", path))?;
            }
        }
        Ok(())
    }
}

fn copy(local_files: &TestFiles) -> Result<(), BenchError> {
    let copied = Command::new("cp")
        .args(["--reflink=never", "--sparse=never"])
        .args([&local_files.source, &local_files.copied])
        .status()
        .map_err(local("run", "cp"))?;
    if copied.success() {
        return Ok(());
    }
    Err(BenchError::Command {
        command: "cp".to_owned(),
        status: copied.to_string(),
    })
}

/// Uploads the file, as `sandbox.files.write(path, file)` does.
async fn upload(files: &Files, local_files: &TestFiles) -> Result<(), BenchError> {
    let file = File::open(&local_files.source).map_err(local("read", &local_files.source))?;
    let upload = files.upload(PATH, local_files.bytes, pieces(file));
    in_time("an upload", LONGEST, upload).await
}

/// The content of a file, read as it is taken.
fn pieces(file: File) -> impl Stream<Item = std::io::Result<Bytes>> {
    stream::try_unfold(file, |mut file| async {
        let mut piece = vec![0; PIECE];
        let length = file.read(&mut piece)?;
        piece.truncate(length);
        Ok((length > 0).then(|| (Bytes::from(piece), file)))
    })
}

/// Downloads the file, as `sandbox.files.read(path)` does, into another.
async fn download(files: &Files, local_files: &TestFiles) -> Result<(), BenchError> {
    let failed = || local("write", &local_files.fetched);
    let mut file = File::create(&local_files.fetched).map_err(failed())?;
    fetch(files, PATH, |bytes| file.write_all(bytes).map_err(failed())).await
}

/// Fetches a file piece by piece.
pub(crate) async fn fetch(
    files: &Files,
    path: &str,
    mut take: impl FnMut(&[u8]) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut file = in_time("a download", LONGEST, files.download(path)).await?;
    while let Some(bytes) = in_time("a download", LONGEST, file.next()).await? {
        take(&bytes)?;
    }
    Ok(())
}

/// A file that came back as another one has not been carried at all.
fn compare(sent: &Path, fetched: &Path) -> Result<(), BenchError> {
    let open = |path: &Path| File::open(path).map_err(local("read", path));
    let (mut one, mut other) = (open(sent)?, open(fetched)?);
    let length = |file: &File, path| {
        file.metadata()
            .map(|data| data.len())
            .map_err(local("read", path))
    };
    let (expected, found) = (length(&one, sent)?, length(&other, fetched)?);
    let different = |found: String| BenchError::Unexpected {
        what: "a download",
        found,
    };
    if expected != found {
        return Err(different(format!("{found} of {expected} bytes came")));
    }
    let (mut here, mut there) = (vec![0; PIECE], vec![0; PIECE]);
    let mut left = expected;
    while left > 0 {
        let length = usize::try_from(left.min(PIECE as u64)).expect("a piece fits into memory");
        one.read_exact(&mut here[..length])
            .map_err(local("read", sent))?;
        other
            .read_exact(&mut there[..length])
            .map_err(local("read", fetched))?;
        if here[..length] != there[..length] {
            return Err(different("other bytes came than were sent".to_owned()));
        }
        left -= length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_came_back_different_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let local_files = TestFiles::make(directory.path(), 300_000).unwrap();
        copy(&local_files).unwrap();
        compare(&local_files.source, &local_files.copied).unwrap();
        let mut bytes = std::fs::read(&local_files.copied).unwrap();
        bytes[299_999] ^= 1;
        std::fs::write(&local_files.fetched, &bytes).unwrap();
        compare(&local_files.source, &local_files.fetched).unwrap_err();
        std::fs::write(&local_files.fetched, &bytes[1..]).unwrap();
        compare(&local_files.source, &local_files.fetched).unwrap_err();
        local_files.remove().unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
