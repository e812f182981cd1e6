//! Kernels that are started before anybody asks for them.
//!
//! A spare is what would be started now, as far as a program can tell: the same command in the
//! same directory, with the same variables and the same files that it reads at its start. When any
//! of these has changed the spare is not given to anybody.
//!
//! Memory is for code. A spare ends, or is not started, when the sandbox has more than half of
//! its memory in use; and should something take all of it at once, the spare is marked as what
//! the host kills first, unless something else is much larger.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use skep_telemetry::Chain;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::kernel::{Event, Kernel, StartError};
use crate::process::{Command, Inherited, Processes};

/// Lifetime of a spare that no caller needs.
const SPARE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Interval at which the memory of the sandbox is checked while there is a spare.
const LOOK: Duration = Duration::from_secs(1);

/// Entry about spares in a `kernel.json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SparePolicy {
    /// Files that the kernel reads when it starts; relative ones are below the directory it starts
    /// in.
    #[serde(default)]
    reads: Vec<String>,
}

/// Key of a kernel's start: kernels with equal keys are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartKey {
    command: Command,
    inherited: Inherited,
    files: BTreeMap<String, Option<SystemTime>>,
}

impl StartKey {
    pub(crate) fn new(
        command: &Command,
        inherited: Inherited,
        policy: &SparePolicy,
        processes: &dyn Processes,
    ) -> Self {
        let changed = |name: &String| {
            let path = Path::new(&inherited.directory).join(name);
            (name.clone(), processes.modified(&path))
        };
        Self {
            files: policy.reads.iter().map(changed).collect(),
            command: command.clone(),
            inherited,
        }
    }
}

type Started = BoxFuture<'static, Result<Box<dyn Kernel>, StartError>>;

/// Spare kernels, at most one of each kind.
#[derive(Default)]
pub(crate) struct Spares {
    /// Spares by the names of their kernels.
    waiting: Mutex<HashMap<String, Spare>>,
}

/// A kernel that waits, or is on its way. It ends when this is dropped.
struct Spare {
    start_key: StartKey,
    ask: oneshot::Sender<oneshot::Sender<Box<dyn Kernel>>>,
}

impl Spares {
    /// The spare of this kernel, if it is what would be started now.
    pub(crate) async fn take(&self, name: &str, start_key: &StartKey) -> Option<Box<dyn Kernel>> {
        let spare = self.waiting.lock().remove(name)?;
        if spare.start_key != *start_key {
            tracing::debug!(name, "a spare kernel is not what would be started now");
            return None;
        }
        let (reply, kernel) = oneshot::channel();
        spare.ask.send(reply).ok()?;
        let mut kernel = kernel.await.ok()?;
        if let Err(error) = kernel.keep() {
            tracing::debug!(%error, "a spare kernel has ended");
            return None;
        }
        Some(kernel)
    }

    /// Has a spare of this kernel, which `start` starts if there is none.
    pub(crate) fn have(
        &self,
        name: &str,
        start_key: StartKey,
        processes: &Arc<dyn Processes>,
        start: impl FnOnce() -> Started,
    ) {
        let mut waiting = self.waiting.lock();
        let is_there = waiting
            .get(name)
            .is_some_and(|spare| !spare.ask.is_closed() && spare.start_key == start_key);
        if is_there {
            return;
        }
        let (ask, asked) = oneshot::channel();
        waiting.insert(name.to_owned(), Spare { start_key, ask });
        skep_telemetry::spawn("spare kernel", hold(Arc::clone(processes), start(), asked));
    }
}

/// Starts a spare and holds it until somebody asks for it or nobody will.
async fn hold(
    processes: Arc<dyn Processes>,
    start: Started,
    asked: oneshot::Receiver<oneshot::Sender<Box<dyn Kernel>>>,
) {
    if processes.is_short_of_memory().await {
        tracing::debug!("there is no memory for a spare kernel");
        return;
    }
    let mut kernel = match start.await {
        Ok(kernel) => kernel,
        Err(error) => {
            tracing::debug!(error = %Chain(&error), "a spare kernel does not start");
            return;
        }
    };
    // The end first: a spare that has died is never handed out.
    tokio::select! {
        biased;
        () = end(&mut kernel) => tracing::debug!("a spare kernel has ended"),
        reply = asked => {
            // Otherwise it was displaced by another.
            if let Ok(reply) = reply && reply.send(kernel).is_err() {
                tracing::debug!("nobody waits for the spare kernel any more");
            }
        }
        () = shortage(&*processes) => tracing::debug!("the memory of a spare kernel is needed"),
        () = sleep(SPARE_LIFETIME) => tracing::debug!("nobody needs the spare kernel"),
    }
}

async fn shortage(processes: &dyn Processes) {
    while !processes.is_short_of_memory().await {
        sleep(LOOK).await;
    }
}

async fn end(kernel: &mut Box<dyn Kernel>) {
    while !matches!(kernel.receive().await, Event::Ended(_)) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use futures_util::FutureExt;
    use skep_testkit::wait_until;

    use super::*;
    use crate::fake::FakeKernels;
    use crate::kernel::Launcher;
    use crate::process::none::NoProcesses;

    fn start_key(program: &str) -> StartKey {
        let command = Command {
            arguments: vec![program.to_owned()],
            ..Command::default()
        };
        let (inherited, processes) = (Inherited::default(), NoProcesses::default());
        StartKey::new(&command, inherited, &SparePolicy::default(), &processes)
    }

    fn have(spares: &Spares, kernels: &Arc<FakeKernels>, start_key: StartKey) {
        let kernels = Arc::clone(kernels);
        let processes: Arc<dyn Processes> = Arc::new(NoProcesses::default());
        spares.have("r", start_key, &processes, || {
            async move { kernels.start("bash").await }.boxed()
        });
    }

    async fn wait_for_ends(kernels: &FakeKernels, ends: u64) {
        wait_until(Duration::from_secs(5), || async {
            match kernels.ends.load(Ordering::SeqCst) {
                ended if ended == ends => Ok(()),
                ended => Err(format!("{ended} have ended")),
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_spare_is_given_once_and_only_as_what_it_is() {
        let (spares, kernels) = (Spares::default(), Arc::default());
        assert!(spares.take("r", &start_key("R")).await.is_none());
        have(&spares, &kernels, start_key("R"));
        have(&spares, &kernels, start_key("R"));
        assert!(spares.take("java", &start_key("R")).await.is_none());
        assert!(spares.take("r", &start_key("R")).await.is_some());
        assert!(spares.take("r", &start_key("R")).await.is_none());
        assert_eq!(kernels.starts.load(Ordering::SeqCst), 1);

        have(&spares, &kernels, start_key("R"));
        assert!(spares.take("r", &start_key("Rscript")).await.is_none());
        have(&spares, &kernels, start_key("R"));
        have(&spares, &kernels, start_key("Rscript"));
        assert!(spares.take("r", &start_key("Rscript")).await.is_some());
        // Also those that nobody got: the one that was asked for in vain and the displaced one.
        wait_for_ends(&kernels, 4).await;
    }

    #[tokio::test]
    async fn a_spare_that_has_ended_is_no_spare() {
        let (spares, kernels) = (Spares::default(), Arc::default());
        have(&spares, &kernels, start_key("R"));
        wait_until(Duration::from_secs(5), || async {
            let starts = kernels.starts.load(Ordering::SeqCst);
            (starts == 1).then_some(()).ok_or("it is being started")
        })
        .await;
        kernels.kill_newest();
        assert!(spares.take("r", &start_key("R")).await.is_none());
        kernels.broken.store(true, Ordering::SeqCst);
        have(&spares, &kernels, start_key("R"));
        assert!(spares.take("r", &start_key("R")).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_spare_that_nobody_needs_ends() {
        let (spares, kernels) = (Spares::default(), Arc::default());
        have(&spares, &kernels, start_key("R"));
        sleep(SPARE_LIFETIME + Duration::from_secs(1)).await;
        assert_eq!(kernels.ends.load(Ordering::SeqCst), 1);
        assert!(spares.take("r", &start_key("R")).await.is_none());
    }

    #[test]
    fn what_a_kernel_reads_at_its_start_is_part_of_its_start_key() {
        let directory = tempfile::tempdir().unwrap();
        let of_now = || {
            let inherited = Inherited {
                directory: directory.path().to_string_lossy().into_owned(),
                ..Inherited::default()
            };
            let policy: SparePolicy = serde_json::from_str(r#"{"reads": [".Rprofile"]}"#).unwrap();
            let processes = NoProcesses::default();
            StartKey::new(&Command::default(), inherited, &policy, &processes)
        };
        let before = of_now();
        assert_eq!(before, of_now());
        std::fs::write(directory.path().join(".Rprofile"), "x <- 1").unwrap();
        assert_ne!(before, of_now());
    }
}
