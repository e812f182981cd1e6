//! Starting the processes of sandboxes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;

/// Processes that wait to be started. Whoever starts one more blocks for a moment.
const QUEUE: usize = 64;

/// The program of the proxies: how to start it.
#[derive(Debug, Clone)]
pub struct Program {
    orders: Arc<SyncSender<StartRequest>>,
}

struct StartRequest {
    terms: String,
    channel: OwnedFd,
    /// Standard output of the process.
    output: OwnedFd,
    started: oneshot::Sender<io::Result<Process>>,
}

/// A process. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process(Option<Child>);

impl Program {
    /// A program that is started as `executable` with `arguments`, in the empty directory `root`, and
    /// then calls [`crate::run`] with what follows them, before it starts any thread.
    ///
    /// # Errors
    ///
    /// If there can be no thread that starts it.
    pub fn new(executable: PathBuf, arguments: Vec<OsString>, root: PathBuf) -> io::Result<Self> {
        let (orders, waiting) = sync_channel(QUEUE);
        // The processes die with the thread that has started them, so it must be one that lives
        // as long as the server.
        let start = move || start_all(&waiting, &executable, &arguments, &root);
        std::thread::Builder::new()
            .name("egress starter".to_owned())
            .spawn(start)?;
        Ok(Self {
            orders: Arc::new(orders),
        })
    }

    pub(super) async fn start(
        &self,
        terms: String,
        channel: OwnedFd,
        output: OwnedFd,
    ) -> io::Result<Process> {
        let (started, process) = oneshot::channel();
        let order = StartRequest {
            terms,
            channel,
            output,
            started,
        };
        let orders = Arc::clone(&self.orders);
        let sent = tokio::task::spawn_blocking(move || orders.send(order)).await?;
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        process.await.map_err(io::Error::other)?
    }
}

fn start_all(
    orders: &Receiver<StartRequest>,
    executable: &PathBuf,
    arguments: &[OsString],
    root: &PathBuf,
) {
    while let Ok(order) = orders.recv() {
        let child = Command::new(executable)
            .args(arguments)
            .arg(order.terms)
            .current_dir(root)
            .env_clear()
            .stdin(Stdio::from(order.channel))
            .stdout(Stdio::from(order.output))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        // Nobody waits for one whose sandbox is gone: it is killed at once.
        drop(order.started.send(child.map(|child| Process(Some(child)))));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else {
            return;
        };
        // It has ended by itself, if that fails.
        if let Err(error) = child.kill() {
            tracing::debug!(%error, "an egress proxy has ended by itself");
        }
        // It dies at once, but not before this thread has other things to do.
        let mut reap = move || {
            if let Err(error) = child.wait() {
                tracing::debug!(%error, "somebody else has reaped an egress proxy");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(reap)),
            Err(_) => reap(),
        }
    }
}
