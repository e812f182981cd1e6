//! The end of a build: start and ready command, and the template itself.

use std::sync::Arc;
use std::time::Duration;

use skep_types::{
    BuildBase, BuildPhase, BuiltTemplate, LogLevel, Sharing, TemplateImage, TemplateStart,
};
use tokio::time::Instant;

use crate::build::{Build, StepFailure};
use crate::context::{self, Context};
use crate::log::Log;
use crate::sandboxes::{BuildSandbox, Exit, RunError};

/// Port that the agent of every sandbox holds for the interpreter.
const INTERPRETER_PORT: u16 = 49999;

/// Description of that port, for whoever serves there or waits for an answer.
const INTERPRETERS: &str = "is the interpreter's in every sandbox here, so nothing else serves there; it runs kernels that a template brings without a start command";

/// Time limit for the interpreter to become ready.
const INTERPRETER_TIMEOUT: Duration = Duration::from_mins(1);

/// Time for which a start command that is to bring an interpreter may still fail, once ours has
/// answered in its place.
const INTERPRETER_GRACE: Duration = Duration::from_secs(2);

/// Time between two runs of it.
const READY_PAUSE: Duration = Duration::from_millis(500);

/// Time limit for a start command: it may run as long as anybody waits.
const START_TIMEOUT: Duration = Duration::from_mins(15);

/// Default ready command of a start command.
const DEFAULT_READY: &str = "sleep 20";

impl Build<'_> {
    pub(crate) async fn finalize(mut self) -> Result<BuiltTemplate, StepFailure> {
        let log = self.log.of(BuildPhase::Finalize);
        log.info(format!(
            "[finalize] Finalizing template build [{}]",
            self.state.short()
        ));
        let mut start = self.start_commands();
        if let Some(start) = &mut start {
            let sandbox = self.sandbox().await?;
            match try_start(sandbox, start, &log).await? {
                Tried::Whole => {}
                Tried::Needless => start.command = None,
            }
        }
        self.open.clear().await;
        let context = self.context;
        let env = context.environment.iter();
        let image = TemplateImage {
            id: self.order.template.clone(),
            name: self.order.template.to_string(),
            layers: self.layers,
            env: env
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            user: context.user.clone(),
            workdir: context.work_directory.clone(),
            resources: self.order.resources,
            sharing: Sharing::WithinTeam,
            start: start.map(Box::new),
        };
        Ok(BuiltTemplate {
            image,
            context,
            size: self.bytes,
        })
    }

    /// Commands of the order, or else those of the template that it begins with.
    fn start_commands(&self) -> Option<TemplateStart> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let command = given(&self.order.start_command);
        let ready = given(&self.order.ready_command);
        if command.is_none() && ready.is_none() {
            return match &self.order.base {
                BuildBase::Template { image, .. } => image.start.as_deref().cloned(),
                BuildBase::Image { .. } => None,
            };
        }
        let ready = ready.or_else(|| Some(DEFAULT_READY.to_owned()));
        let env = self.context.environment.iter();
        Some(TemplateStart {
            command,
            ready,
            user: self.context.user.clone(),
            workdir: self.context.work_directory.clone(),
            env: env
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        })
    }
}

/// Commands that have brought a sandbox to where it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// Both of them.
    Whole,
    /// The ready command alone: the start command has failed at what our interpreter does.
    Needless,
}

/// Runs the commands as a sandbox of the template will.
async fn try_start(
    sandbox: Arc<dyn BuildSandbox>,
    start: &TemplateStart,
    log: &Log,
) -> Result<Tried, StepFailure> {
    let context = Context {
        user: start.user.clone(),
        work_directory: start.workdir.clone(),
        environment: start.env.iter().cloned().collect(),
    };
    let is_about_interpreter = names_interpreter(&start.command) || names_interpreter(&start.ready);
    if is_about_interpreter {
        log.warn(format!("Port {INTERPRETER_PORT} {INTERPRETERS}"));
    }
    let failed = start_fails(sandbox.as_ref(), &context, start.command.as_deref(), log);
    tokio::pin!(failed);
    let ready = async {
        match &start.ready {
            Some(text) => {
                // It answers at once, or never.
                let limit = if is_about_interpreter {
                    INTERPRETER_TIMEOUT
                } else {
                    TemplateStart::READY_WITHIN
                };
                wait_until_ready(sandbox.as_ref(), &context, (text, limit), log).await
            }
            None => Ok(()),
        }
    };
    tokio::pin!(ready);
    // Templates that bring an interpreter of their own wait for its port, where ours is.
    let waits_for_interpreter = names_interpreter(&start.ready);
    let (failure, ready) = tokio::select! {
        biased;
        failure = &mut failed => {
            let ready = if waits_for_interpreter { ready.await } else { Ok(()) };
            (Some(failure), ready)
        }
        ready = &mut ready => {
            let failure = if waits_for_interpreter && ready.is_ok() {
                tokio::time::timeout(INTERPRETER_GRACE, failed).await.ok()
            } else {
                None
            };
            (failure, ready)
        }
    };
    let told = |failure: String| {
        StepFailure::caller(if is_about_interpreter {
            format!("{failure} (port {INTERPRETER_PORT} {INTERPRETERS})")
        } else {
            failure
        })
    };
    let tried = match (failure, ready) {
        (Some(failure), Ok(())) if waits_for_interpreter => {
            log.warn(format!(
                "The template has no start command: {failure}, and the interpreter that the ready command waits for runs without it"
            ));
            Tried::Needless
        }
        (Some(failure), _) => return Err(told(failure)),
        (None, Ok(())) => Tried::Whole,
        (None, Err(StepFailure::Caller(message))) => return Err(told(message)),
        (None, Err(failure @ StepFailure::Platform(_))) => return Err(failure),
    };
    log.info("Template is ready");
    Ok(tried)
}

/// Runs the start command until it fails; returns why, in words for the caller. One that ends well,
/// because it has put itself into the background, or is not there, never fails.
async fn start_fails(
    sandbox: &dyn BuildSandbox,
    context: &Context,
    command: Option<&str>,
    log: &Log,
) -> String {
    let Some(text) = command else {
        return std::future::pending().await;
    };
    log.info(format!("Running start command: {text}"));
    let lines = log.output("[start]", LogLevel::Info);
    let command = context::shell(context, None, text, START_TIMEOUT);
    let ended = sandbox.run(&command, lines.clone()).await;
    lines.finish();
    match ended {
        Ok(exit) if exit.is_success() => std::future::pending().await,
        ended => format!(
            "start command failed: error running start command: {}",
            reason(ended)
        ),
    }
}

/// Returns true if a command serves at the interpreter's port, or asks it.
fn names_interpreter(command: &Option<String>) -> bool {
    let port = INTERPRETER_PORT.to_string();
    command.as_ref().is_some_and(|text| text.contains(&port))
}

async fn wait_until_ready(
    sandbox: &dyn BuildSandbox,
    context: &Context,
    (text, limit): (&str, Duration),
    log: &Log,
) -> Result<(), StepFailure> {
    log.info(format!("Waiting for template to be ready: {text}"));
    let deadline = Instant::now() + limit;
    loop {
        // One that just waits may take all the time that there is.
        let left = deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_secs(1));
        let command = context::shell(context, None, text, left);
        let lines = log.output("[ready]", LogLevel::Debug);
        let ended = sandbox.run(&command, lines.clone()).await;
        lines.finish();
        match ended {
            Ok(exit) if exit.is_success() => return Ok(()),
            Err(error @ (RunError::Refused { .. } | RunError::Lost(_))) => {
                return Err(StepFailure::caller(format!(
                    "ready command failed: {error}"
                )));
            }
            ended => log.debug(format!("Template is not ready: {}", reason(ended))),
        }
        if Instant::now() >= deadline {
            return Err(StepFailure::caller(format!(
                "ready command failed: ready command timed out after {}m0s",
                limit.as_secs() / 60
            )));
        }
        tokio::time::sleep(READY_PAUSE).await;
    }
}

fn reason(ended: Result<Exit, RunError>) -> String {
    match ended {
        Ok(exit) => exit.status,
        Err(error) => error.to_string(),
    }
}
