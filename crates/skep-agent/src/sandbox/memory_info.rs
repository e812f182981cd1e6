//! `/proc/meminfo` of the sandbox: a file that the launcher has put there and the agent writes.
//!
//! It is written when a process or an execution begins and when somebody opens it, and not
//! otherwise: a sandbox in which nothing happens costs nothing. Whoever opens it may read what was
//! true before, since the kernel tells of an opening when it has happened.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags};
use skep_agent_protocol::MemoryInfo;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::process::pipe_end::{MAX_PIECE, PipeEnd};
use crate::rootfs;

/// Shortest time between two writes: code that opens the file in a loop keeps the agent no busier
/// than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

/// Largest size of a statistics file that is read; the kernel's own is a quarter of it.
const LARGEST_STATISTICS: usize = 16 << 10;

/// The file and what is written there.
#[derive(Debug)]
pub(crate) struct MemoryFiles {
    /// The file over `/proc/meminfo`.
    pub(crate) info: OwnedFd,
    /// Memory that counts against the limit of the sandbox.
    pub(crate) used: OwnedFd,
    /// Parts of that.
    pub(crate) statistics: OwnedFd,
}

/// The keeper of the file. It ends with the runtime.
#[derive(Debug)]
pub(crate) struct MemoryKeeper {
    renewal: Notify,
    /// Set unless openings are to be left alone.
    wanted: watch::Sender<bool>,
    /// Set while openings are seen.
    watching: watch::Sender<bool>,
}

impl Default for MemoryKeeper {
    fn default() -> Self {
        Self {
            renewal: Notify::new(),
            wanted: watch::Sender::new(true),
            watching: watch::Sender::new(true),
        }
    }
}

impl MemoryKeeper {
    /// Keeps the file of a sandbox with so much memory, in bytes, up to date from now on. Must be
    /// called within the runtime, before code of the sandbox runs.
    pub(crate) fn start(files: MemoryFiles, total: u64) -> io::Result<Arc<Self>> {
        let mut openings = Some(files.watch()?);
        let keeper = Arc::new(Self::default());
        let kept = Arc::clone(&keeper);
        skep_telemetry::spawn("memory info", async move {
            let mut wanted = kept.wanted.subscribe();
            // Whoever waits for the end of the watch must not wait for a task that has ended.
            let _ended = Ended(Arc::clone(&kept));
            loop {
                let heard = tokio::select! {
                    () = kept.renewal.notified() => Ok(()),
                    opened = next(openings.as_ref()) => opened,
                    // The sender is in `kept`.
                    _ = wanted.changed() => {
                        let watched = wanted.borrow_and_update().then(|| files.watch());
                        match watched.transpose() {
                            Ok(watched) => openings = watched,
                            Err(error) => {
                                tracing::warn!(%error, "openings of memory info are not seen");
                                openings = None;
                            }
                        }
                        kept.watching.send_replace(openings.is_some());
                        continue;
                    }
                };
                let written = heard.and_then(|()| files.write(total));
                if let Err(error) = written {
                    tracing::warn!(%error, "memory info is not kept up to date any more");
                    return;
                }
                sleep(SHORTEST_INTERVAL).await;
            }
        });
        Ok(keeper)
    }

    /// Lets go of the watch for openings, and returns when it is gone: it is one of a file that no
    /// path leads to, which no image can hold.
    pub(crate) async fn stop_watching(&self) {
        self.wanted.send_replace(false);
        let mut watching = self.watching.subscribe();
        watching
            .wait_for(|watching| !watching)
            .await
            .expect("the sender is in self");
    }

    /// Watches for openings again.
    pub(crate) fn watch_again(&self) {
        self.wanted.send_replace(true);
        self.renew();
    }

    /// Has the file written soon, since something begins that may read it.
    pub(crate) fn renew(&self) {
        self.renewal.notify_one();
    }
}

/// Says that nothing is watched any more when the task of a keeper ends.
struct Ended(Arc<MemoryKeeper>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.watching.send_replace(false);
    }
}

/// Waits for the next opening, for ever if nobody looks.
async fn next(openings: Option<&PipeEnd>) -> io::Result<()> {
    match openings {
        Some(openings) => openings.read(MAX_PIECE).await.map(drop),
        None => std::future::pending().await,
    }
}

impl MemoryFiles {
    /// Watches for openings of the file.
    fn watch(&self) -> io::Result<PipeEnd> {
        let openings = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        rootfs::watch_openings(&openings, self.info.as_fd())?;
        PipeEnd::new(openings)
    }

    fn write(&self, total: u64) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let used = read(&self.used)?.trim().parse().map_err(|_| invalid())?;
        let info = MemoryInfo::read(total, used, &read(&self.statistics)?);
        rustix::io::pwrite(&self.info, info.to_text().as_bytes(), 0)?;
        Ok(())
    }
}

/// Reads a file of a cgroup from its start; the kernel writes it anew each time.
fn read(file: &OwnedFd) -> io::Result<String> {
    let mut text = vec![0; LARGEST_STATISTICS];
    let length = rustix::io::pread(file, &mut text, 0)?;
    text.truncate(length);
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek as _, Write as _};

    use skep_testkit::wait_for;

    use super::*;

    struct Bench {
        shown: tempfile::NamedTempFile,
        used: File,
        keeper: Arc<MemoryKeeper>,
    }

    /// A keeper of a mebibyte, of which `used` bytes are used.
    fn bench(used: &str) -> Bench {
        let shown = tempfile::NamedTempFile::new().unwrap();
        let with = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let used = with(used);
        let files = MemoryFiles {
            info: shown.reopen().unwrap().into(),
            used: used.try_clone().unwrap().into(),
            statistics: with("anon 4096\nfile 0\n").into(),
        };
        let keeper = MemoryKeeper::start(files, 1 << 20).unwrap();
        Bench {
            shown,
            used,
            keeper,
        }
    }

    impl Bench {
        fn shows(&self, free: u64) -> Result<(), String> {
            let text = std::fs::read_to_string(self.shown.path()).unwrap();
            let wanted = format!("MemFree:        {free:>8} kB");
            let found = text.lines().any(|line| line == wanted);
            found.then_some(()).ok_or(text)
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_used_is_told_when_something_begins_and_to_whoever_looks_again() {
        let mut bench = bench("524288\n");
        bench.keeper.renew();
        let deadline = Duration::from_secs(10);
        wait_for(deadline, || bench.shows(512));
        bench.used.rewind().unwrap();
        bench.used.write_all(b"262144\n").unwrap();
        // Nobody says that it is to be written: looking at it is enough.
        wait_for(deadline, || bench.shows(768));
        // Nor is it seen while openings are left alone, and it is again afterwards.
        bench.keeper.stop_watching().await;
        bench.used.rewind().unwrap();
        bench.used.write_all(b"131072\n").unwrap();
        bench.shows(768).unwrap();
        bench.shows(768).unwrap();
        bench.keeper.watch_again();
        wait_for(deadline, || bench.shows(896));
    }
}
