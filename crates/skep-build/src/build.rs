//! One build, from its base to the finished template.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use skep_image::{ContentKey, LayerStart, StepRecord};
use skep_telemetry::Chain;
use skep_types::{
    BuildFailure, BuildOrder, BuildPhase, BuildStep, BuiltTemplate, Instruction, LayerKey,
    random_bytes,
};
use tokio::sync::oneshot;

use crate::context::{self, Context};
use crate::copy::Copy;
use crate::engine::Inner;
use crate::log::{Kept, Log};
use crate::sandboxes::{BuildSandbox, Command, Exit, OpenError, RunError, SandboxOrder, SealError};
use crate::steps;

/// Time limit for a question of ours to a sandbox, or for unpacking files.
const ASK_TIMEOUT: Duration = Duration::from_mins(10);

/// Time limit for another build of the team that makes the same layer.
const BUSY_TIMEOUT: Duration = Duration::from_mins(10);

/// Time between two looks at such a layer.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Time limit for a host without room to have some again.
const ROOM_TIMEOUT: Duration = Duration::from_mins(5);

/// Time between two looks for room.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Failure of a part of a build.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// The caller's order cannot be done, in words for the caller.
    Caller(String),
    /// We could not do it.
    Platform(Source),
}

impl StepFailure {
    pub(crate) fn caller(message: impl Into<String>) -> Self {
        Self::Caller(message.into())
    }

    pub(crate) fn platform(source: impl Into<Source>) -> Self {
        Self::Platform(source.into())
    }

    /// The failure as the caller is told.
    pub(crate) fn in_phase(self, phase: BuildPhase) -> BuildFailure {
        match self {
            Self::Caller(message) => BuildFailure {
                phase: Some(phase),
                message,
            },
            Self::Platform(source) => {
                tracing::error!(error = %Chain(source.as_ref()), ?phase, "a build failed");
                let message = if is_disk_full(source.as_ref()) {
                    format!(
                        "the disk of the server is full, so {} could not be kept; its operator can make room, and what was done before is there",
                        thing(phase)
                    )
                } else {
                    "the build failed inside the server; its operator finds the reason in the server's log".to_owned()
                };
                BuildFailure {
                    phase: None,
                    message,
                }
            }
        }
    }
}

/// The result of a phase, in words. Paths of the host are not for callers.
fn thing(phase: BuildPhase) -> String {
    match phase {
        BuildPhase::Base => "the base".to_owned(),
        BuildPhase::Step(number) => format!("what step {number} has made"),
        BuildPhase::Finalize => "the template".to_owned(),
    }
}

/// True if something behind an error is that the host has no room left for files.
fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        })
}

/// The sandboxes of a build, which are closed when the build is over, however it ends.
#[derive(Debug, Default)]
pub(crate) struct OpenSandboxes {
    /// The one in which the step is carried out.
    own: Mutex<Option<Arc<dyn BuildSandbox>>>,
    /// One of another version, from which the step copies.
    source: Mutex<Option<Arc<dyn BuildSandbox>>>,
}

impl OpenSandboxes {
    fn get(&self) -> Option<Arc<dyn BuildSandbox>> {
        self.own.lock().clone()
    }

    /// Keeps a sandbox of another version until it is closed.
    pub(crate) fn keep_source(&self, sandbox: Arc<dyn BuildSandbox>) {
        *self.source.lock() = Some(sandbox);
    }

    /// Ends the sandbox of another version, if there is one.
    pub(crate) async fn clear_source(&self) {
        let sandbox = self.source.lock().take();
        if let Some(sandbox) = sandbox {
            sandbox.close().await;
        }
    }

    /// Ends the sandboxes, if there are any.
    pub(crate) async fn clear(&self) {
        self.clear_source().await;
        let sandbox = self.own.lock().take();
        if let Some(sandbox) = sandbox {
            sandbox.close().await;
        }
    }
}

/// A build on its way.
#[derive(Debug)]
pub(crate) struct Build<'a> {
    pub(crate) engine: &'a Inner,
    pub(crate) order: &'a BuildOrder,
    pub(crate) log: &'a Log,
    /// Its sandbox, as long as nothing was changed in it.
    pub(crate) open: &'a OpenSandboxes,
    pub(crate) layers: Vec<LayerKey>,
    /// Everything that led here.
    pub(crate) state: ContentKey,
    /// Base of the steps.
    pub(crate) scope: ContentKey,
    pub(crate) context: Context,
    /// Bytes beyond the base.
    pub(crate) bytes: u64,
    /// True once a step was to be done though its layer is there.
    pub(crate) is_forced: bool,
}

impl Build<'_> {
    /// Carries out all steps and makes the template.
    pub(crate) async fn finish(mut self) -> Result<BuiltTemplate, BuildFailure> {
        let order = self.order;
        for (number, step) in (1..).zip(&order.steps) {
            let phase = BuildPhase::Step(number);
            let done = self.step(number, step).await;
            done.map_err(|failure| failure.in_phase(phase))?;
        }
        let finalized = self.finalize().await;
        finalized.map_err(|failure| failure.in_phase(BuildPhase::Finalize))
    }

    async fn step(&mut self, number: usize, step: &BuildStep) -> Result<(), StepFailure> {
        let log = self.log.of(BuildPhase::Step(number));
        self.is_forced |= step.force;
        let prefix = format!("[builder {number}/{}]", self.order.steps.len());
        let words = steps::words(&step.instruction);
        let key = steps::key(&self.state, &step.instruction);
        let label = format!("{prefix} {words} [{}]", key.short());
        if let Some(record) = self.found(key).await? {
            log.info(format!("CACHED {label}"));
            self.enter(record);
            return Ok(());
        }
        log.info(label);
        let (context, changed) = self.carry_out(&step.instruction, &prefix, &log).await?;
        let before = self.bytes;
        self.settle(key, context, changed, &words).await?;
        if changed == Changed::Files {
            log.debug(format!("{prefix} layer of {} bytes", self.bytes - before));
        }
        Ok(())
    }

    async fn carry_out(
        &mut self,
        instruction: &Instruction,
        prefix: &str,
        log: &Log,
    ) -> Result<(Context, Changed), StepFailure> {
        let context = self.context.clone();
        match instruction {
            Instruction::Run { command, user } => {
                self.run(&context, user.as_deref(), command, prefix, log)
                    .await?;
                Ok((context, Changed::Files))
            }
            Instruction::Copy {
                source,
                destination,
                owner,
                mode,
                files,
            } => {
                let copy = Copy {
                    source,
                    destination,
                    owner: owner.as_deref(),
                    mode: *mode,
                    files,
                };
                self.copy(copy, &context).await?;
                Ok((context, Changed::Files))
            }
            Instruction::CopyFrom { layers, copy } => {
                self.copy_from(layers.clone(), copy, &context).await?;
                Ok((context, Changed::Files))
            }
            Instruction::Environment(variables) => self.set_variables(context, variables).await,
            Instruction::WorkDirectory(path) => self.set_directory(context, path).await,
            Instruction::User {
                name,
                administrator,
            } => self.set_user(context, name, *administrator).await,
        }
    }

    /// The result of an earlier build, if it may be used.
    pub(crate) async fn found(&self, key: ContentKey) -> Result<Option<StepRecord>, StepFailure> {
        if self.is_forced {
            return Ok(None);
        }
        let catalog = Arc::clone(&self.engine.catalog);
        let found = tokio::task::spawn_blocking(move || catalog.step(&key))
            .await
            .map_err(StepFailure::platform)?;
        found.map_err(StepFailure::platform)
    }

    /// Goes on from the result of a step.
    pub(crate) fn enter(&mut self, record: StepRecord) {
        self.state = record.state;
        self.context = context::from_record(record.context);
        self.bytes += record.bytes;
        self.layers.extend(record.layer.map(|layer| layer.layer()));
    }

    /// Keeps the result of a step and goes on from it.
    pub(crate) async fn settle(
        &mut self,
        key: ContentKey,
        context: Context,
        changed: Changed,
        title: &str,
    ) -> Result<(), StepFailure> {
        // A layer never changes, so a step that is done again has another one.
        let state = if self.is_forced {
            let random: [u8; 16] = random_bytes();
            ContentKey::of("build-forced-1", [key.as_bytes(), &random])
        } else {
            key
        };
        let (layer, bytes) = match changed {
            Changed::Nothing => (None, 0),
            Changed::Files => (Some(state), self.seal(state, title).await?),
        };
        let record = StepRecord {
            state,
            layer,
            bytes,
            context: context::to_record(&context),
        };
        let (catalog, kept) = (Arc::clone(&self.engine.catalog), record.clone());
        let keeping = tokio::task::spawn_blocking(move || catalog.record_step(&key, &kept))
            .await
            .map_err(StepFailure::platform)?;
        keeping.map_err(StepFailure::platform)?;
        self.enter(record);
        if self.layers.len() > self.engine.limits.layers {
            return Err(StepFailure::caller(format!(
                "the template has more than {} layers; join some of its commands",
                self.engine.limits.layers
            )));
        }
        Ok(())
    }

    /// Makes a layer of what was changed in the sandbox, which ends. Returns its bytes.
    async fn seal(&mut self, key: ContentKey, title: &str) -> Result<u64, StepFailure> {
        let limits = &self.engine.limits;
        let left = limits.template_bytes.saturating_sub(self.bytes);
        let sandbox = self
            .open
            .get()
            .ok_or_else(|| StepFailure::platform("a step had no sandbox"))?;
        let catalog = Arc::clone(&self.engine.catalog);
        let (limit, title) = (left.min(limits.layer_bytes), title.to_owned());
        // A task of its own: a build that is cancelled leaves no half of a layer to this thread.
        let sealing = skep_telemetry::spawn("seal a layer", async move {
            let started = start_layer(catalog, key).await;
            let draft = match started.map_err(SealError::Failed)? {
                LayerStart::Made(record) => return Ok(record.bytes),
                LayerStart::Busy => {
                    return Err(SealError::Failed("somebody else makes this layer".into()));
                }
                LayerStart::Draft(draft) => draft,
            };
            let sealed = sandbox.seal(draft.root(), limit).await;
            let finishing = tokio::task::spawn_blocking(move || {
                // The draft goes here if there is nothing to keep, because that blocks.
                sealed?;
                let record = draft.commit(&title);
                record
                    .map(|record| record.bytes)
                    .map_err(|error| SealError::Failed(error.into()))
            });
            finishing
                .await
                .unwrap_or_else(|panic| Err(SealError::Failed(panic.into())))
        });
        let sealed = sealing
            .await
            .map_err(StepFailure::platform)?
            .ok_or_else(|| StepFailure::platform("sealing a layer panicked"))?;
        self.open.clear().await;
        sealed.map_err(|error| match error {
            SealError::TooLarge(_) => StepFailure::caller(format!(
                "the step makes the template larger than it may be: {error}"
            )),
            SealError::Failed(_) => StepFailure::platform(error),
        })
    }

    /// The sandbox of the layers so far, in which nothing was changed yet.
    pub(crate) async fn sandbox(&mut self) -> Result<Arc<dyn BuildSandbox>, StepFailure> {
        if let Some(sandbox) = self.open.get() {
            return Ok(sandbox);
        }
        let sandbox = self.open_sandbox(self.layers.clone()).await?;
        *self.open.own.lock() = Some(Arc::clone(&sandbox));
        Ok(sandbox)
    }

    /// Opens a sandbox of some layers, once the host has room for it.
    pub(crate) async fn open_sandbox(
        &self,
        layers: Vec<LayerKey>,
    ) -> Result<Arc<dyn BuildSandbox>, StepFailure> {
        let order = SandboxOrder {
            layers,
            team: self.order.team.clone(),
            template: self.order.template.clone(),
            resources: self.order.resources,
            scope: self.scope,
        };
        let deadline = tokio::time::Instant::now() + ROOM_TIMEOUT;
        loop {
            match self.open(order.clone()).await {
                Ok(sandbox) => return Ok(sandbox),
                Err(OpenError::NoRoom) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(ROOM_PAUSE).await;
                }
                Err(OpenError::NoRoom) => {
                    return Err(StepFailure::caller(format!(
                        "the server has had no room for the sandbox of this step for {} minutes; try again when fewer run",
                        ROOM_TIMEOUT.as_secs() / 60
                    )));
                }
                Err(error @ OpenError::Failed(_)) => return Err(StepFailure::platform(error)),
            }
        }
    }

    /// Starts a sandbox in a task of its own, which ends it again if the build has gone.
    async fn open(&self, order: SandboxOrder) -> Result<Arc<dyn BuildSandbox>, OpenError> {
        let sandboxes = Arc::clone(&self.engine.sandboxes);
        let (sender, receiver) = oneshot::channel();
        skep_telemetry::spawn("open a sandbox for a build", async move {
            let opened = sandboxes.open(order).await;
            if let Err(Ok(unwanted)) = sender.send(opened) {
                unwanted.close().await;
            }
        });
        receiver
            .await
            .unwrap_or_else(|gone| Err(OpenError::Failed(gone.into())))
    }

    /// Runs a command of ours as root, and returns its end and what it printed.
    pub(crate) async fn ask(&mut self, arguments: &[&str]) -> Result<(Exit, String), StepFailure> {
        let command = Command {
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            user: "root".to_owned(),
            directory: Some("/".to_owned()),
            environment: [("PATH".to_owned(), context::STANDARD_PATH.to_owned())].into(),
            timeout: ASK_TIMEOUT,
        };
        let sandbox = self.sandbox().await?;
        let kept = Arc::new(Kept::default());
        match sandbox.run(&command, kept.clone()).await {
            Ok(exit) => Ok((exit, kept.text())),
            Err(RunError::Refused { message, .. }) => Err(StepFailure::caller(message)),
            Err(error @ (RunError::TimedOut(_) | RunError::Lost(_))) => {
                Err(StepFailure::platform(error))
            }
        }
    }
}

/// True if a step has changed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Files,
    Nothing,
}

/// Begins a layer, and waits while another build makes it.
async fn start_layer(
    catalog: Arc<skep_image::Catalog>,
    key: ContentKey,
) -> Result<LayerStart, Source> {
    let deadline = tokio::time::Instant::now() + BUSY_TIMEOUT;
    loop {
        let store = Arc::clone(&catalog);
        let started = tokio::task::spawn_blocking(move || store.start_layer(&key)).await??;
        let is_busy = matches!(started, LayerStart::Busy);
        if !is_busy || tokio::time::Instant::now() > deadline {
            return Ok(started);
        }
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_what_needed_it() {
        let told = |kind: io::ErrorKind| {
            let error = SealError::Failed(io::Error::from(kind).into());
            StepFailure::platform(error)
                .in_phase(BuildPhase::Step(3))
                .message
        };
        assert_eq!(
            told(io::ErrorKind::StorageFull),
            "the disk of the server is full, so what step 3 has made could not be kept; its operator can make room, and what was done before is there"
        );
        assert!(told(io::ErrorKind::Other).starts_with("the build failed inside the server"));
    }
}
