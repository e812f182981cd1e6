//! The start of a build, and its end.

use std::sync::Arc;
use std::time::Duration;

use skep_store::{BuildLog, BuildRecord, BuildStatus, LogLine, StartOutcome, StartedBuild};
use skep_telemetry::Chain;
use skep_types::{
    BuildBase, BuildContext, BuildFailure, BuildId, BuildLogEntry, BuildOrder, BuildPhase,
    BuildStep, BuiltTemplate, Instruction, LogLevel, RegistryCredentials, TemplateImage,
    TemplateReference, VersionCopy,
};

use crate::control::now;
use crate::vendor_images::{instead_of, template_of};
use crate::{BuildReports, Caller, Control, RequestDigest, VersionError};

/// Reason of a build that was interrupted and cannot go on.
const CREDENTIALS_LOST: &str = "the server was restarted while the image was to be pulled with \
     credentials, which it does not keep; build again";
const ORDER_LOST: &str = "the server was restarted during the build and can no longer read what \
     was ordered; build again";

/// Interval at which an end that the database did not take is tried again.
const END_RETRY: Duration = Duration::from_secs(1);

/// A request to carry out a build that waits.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// Base that it begins with.
    pub base: RequestedBase,
    /// Steps that follow; or the reason why they cannot be done, which is told as a failure of the build, so that
    /// the client can name the line of its caller.
    pub steps: Result<Vec<RequestedStep>, BuildFailure>,
    /// Command that runs in every sandbox of the template.
    pub start_command: Option<String>,
    /// Command that succeeds once a sandbox is ready.
    pub ready_command: Option<String>,
    /// True to make the base anew, too.
    pub force: bool,
    /// Digest that identifies the same request when it comes again.
    pub digest: RequestDigest,
}

/// Base that a caller wants for a build.
#[derive(Debug, Clone)]
pub enum RequestedBase {
    /// An image of a registry.
    Image {
        /// Reference as the caller wrote it.
        reference: String,
        /// Credentials for the registry.
        credentials: Option<RegistryCredentials>,
    },
    /// A template.
    Template(String),
}

/// A step of a build, as a caller wants it.
#[derive(Debug, Clone)]
pub enum RequestedStep {
    /// One that needs nothing else.
    Own(BuildStep),
    /// One that copies files out of a template, which is to be found.
    CopyFrom {
        /// Reference of the template, as the caller wrote it.
        template: String,
        /// The files.
        copy: VersionCopy,
        /// True to do it and all that follow, even if their layers are there.
        force: bool,
    },
}

impl Control {
    /// Has a build carried out. It goes on by itself, and its state says how it goes; a base that
    /// does not exist is told there, too.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the build is started, or refused.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn start_version(
        &self,
        caller: &Caller,
        template: TemplateReference,
        build: BuildId,
        request: StartRequest,
    ) -> Result<(), VersionError> {
        caller.may_change()?;
        let (control, caller) = (self.clone(), caller.clone());
        let starting = self.detached("start build", async move {
            let starting = control.start_version_now(&caller, &template, build, request);
            starting.await
        });
        starting.await.unwrap_or(Err(VersionError::BrokeOff))
    }

    async fn start_version_now(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        build: BuildId,
        request: StartRequest,
    ) -> Result<(), VersionError> {
        let record = self.find_build(caller, template, build).await?;
        let steps = match request.steps {
            Ok(steps) => self.steps(caller, steps).await,
            Err(failure) => Err(failure),
        };
        let (base, steps, failure) = match (self.base(caller, request.base).await, steps) {
            (Ok(base), Ok(steps)) => (base, steps, None),
            (Ok(base), Err(failure)) => (base, Vec::new(), Some(failure)),
            (Err((base, failure)), _) => (base, Vec::new(), Some(failure)),
        };
        let order = BuildOrder {
            build,
            template: record.template,
            team: record.team,
            base,
            steps,
            start_command: request.start_command,
            ready_command: request.ready_command,
            resources: record.resources,
            force: request.force,
        };
        let limit = caller.limits.builds;
        let digest = request.digest.to_string();
        let starting = self
            .inner
            .store
            .builds()
            .start(order.clone(), digest, now(), limit);
        match starting.recorded().await? {
            StartOutcome::Started(StartedBuild { cancelled }) => {
                for build in cancelled {
                    self.inner.builds.cancel(build);
                }
                self.carry_out(order, failure);
                Ok(())
            }
            StartOutcome::Repeated => Ok(()),
            StartOutcome::NotWaiting => Err(VersionError::NotWaiting),
            StartOutcome::Unknown => Err(VersionError::UnknownBuild(build)),
            StartOutcome::TooMany => Err(VersionError::TooManyBuilds { limit }),
        }
    }

    fn carry_out(&self, order: BuildOrder, failure: Option<BuildFailure>) {
        let recorder = self.recorder(order.build);
        match failure {
            None => self.inner.builds.start(order, Arc::new(recorder)),
            Some(failure) => recorder.fail(order.build, failure),
        }
    }

    /// Takes up the builds that ran when the last server died.
    pub(crate) async fn take_up_builds(&self) -> Result<(), skep_store::StoreError> {
        for unfinished in self.inner.store.builds().unfinished().await? {
            let lost = |message: &str| BuildFailure {
                phase: None,
                message: message.to_owned(),
            };
            let recorder = self.recorder(unfinished.build);
            match unfinished.order {
                _ if unfinished.had_credentials => {
                    recorder.fail(unfinished.build, lost(CREDENTIALS_LOST));
                }
                None => recorder.fail(unfinished.build, lost(ORDER_LOST)),
                Some(order) => {
                    recorder.say(
                        LogLevel::Warn,
                        "The server was restarted; the build goes on",
                    );
                    self.inner.builds.start(order, Arc::new(recorder));
                }
            }
        }
        Ok(())
    }

    fn recorder(&self, build: BuildId) -> Recorder {
        Recorder {
            log: self.inner.store.builds().log(build),
            control: self.clone(),
        }
    }

    /// Finds what a build begins with. With a failure comes a base for the record.
    async fn base(
        &self,
        caller: &Caller,
        base: RequestedBase,
    ) -> Result<BuildBase, (BuildBase, BuildFailure)> {
        let text = match base {
            RequestedBase::Image {
                reference,
                credentials,
            } => {
                let image = BuildBase::Image {
                    reference: reference.clone(),
                    credentials: credentials.clone(),
                };
                let Some(name) = template_of(&reference).filter(|_| credentials.is_none()) else {
                    return Ok(image);
                };
                // Where it is not built, the image itself may be had.
                let standing = self.template_base(caller, name, reference).await;
                return Ok(standing.unwrap_or(image));
            }
            RequestedBase::Template(text) => text,
        };
        let finding = self.template_base(caller, &text, text.clone());
        finding.await.map_err(|message| {
            let unusable = BuildBase::Image {
                reference: text,
                credentials: None,
            };
            let failure = BuildFailure {
                phase: Some(BuildPhase::Base),
                message,
            };
            (unusable, failure)
        })
    }

    /// Finds the templates that steps copy from.
    async fn steps(
        &self,
        caller: &Caller,
        requested: Vec<RequestedStep>,
    ) -> Result<Vec<BuildStep>, BuildFailure> {
        let mut steps = Vec::new();
        for (number, step) in (1..).zip(requested) {
            steps.push(match step {
                RequestedStep::Own(step) => step,
                RequestedStep::CopyFrom {
                    template,
                    copy,
                    force,
                } => {
                    let found = self.usable_template(caller, &template).await;
                    let (image, _) = found.map_err(|message| BuildFailure {
                        phase: Some(BuildPhase::Step(number)),
                        message,
                    })?;
                    let layers = image.layers;
                    BuildStep {
                        instruction: Instruction::CopyFrom { layers, copy },
                        force,
                    }
                }
            });
        }
        Ok(steps)
    }

    /// The template of a name as a base, which is called as the caller wrote it.
    async fn template_base(
        &self,
        caller: &Caller,
        name: &str,
        written: String,
    ) -> Result<BuildBase, String> {
        let (image, context) = self.usable_template(caller, name).await?;
        Ok(BuildBase::Template {
            reference: written,
            image: Box::new(image),
            context,
        })
    }

    /// The version of a template that a build may use, or why there is none.
    async fn usable_template(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<(TemplateImage, BuildContext), String> {
        let reference: TemplateReference = text.parse().map_err(in_words)?;
        let snapshot = self.find_snapshot(&reference, &caller.team).await;
        if snapshot.map_err(in_words)?.is_some() {
            return Err(format!(
                "'{reference}' is a snapshot of a sandbox; a build cannot begin with one"
            ));
        }
        let own = self.find_version(&caller.team, &reference).await;
        Ok(match own.map_err(in_words)? {
            Some(own) => (own.image, own.context),
            None => {
                let resolving = self.inner.templates.resolve(&reference, &caller.team);
                let image = resolving.await.map_err(|error| {
                    let words = in_words(error);
                    match instead_of(text) {
                        Some(instead) => format!("{words}: {instead}"),
                        None => words,
                    }
                })?;
                let context = BuildContext {
                    user: image.user.clone(),
                    work_directory: image.workdir.clone(),
                    environment: image.env.iter().cloned().collect(),
                };
                (image, context)
            }
        })
    }
}

fn in_words(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Writes what happens to one build to the database.
#[derive(Debug)]
struct Recorder {
    control: Control,
    log: BuildLog,
}

impl Recorder {
    /// Adds a line of our own.
    fn say(&self, level: LogLevel, message: &str) {
        let entry = BuildLogEntry {
            level,
            phase: None,
            message: message.to_owned(),
        };
        self.log.append(LogLine { at: now(), entry });
    }

    /// Ends a build that was not begun.
    fn fail(&self, build: BuildId, failure: BuildFailure) {
        let entry = BuildLogEntry {
            level: LogLevel::Error,
            phase: failure.phase,
            message: format!("Build failed: {failure}"),
        };
        self.log(build, entry);
        self.end(build, Err(failure));
    }
}

impl BuildReports for Recorder {
    fn log(&self, _build: BuildId, entry: BuildLogEntry) {
        self.log.append(LogLine { at: now(), entry });
    }

    fn end(&self, build: BuildId, result: Result<BuiltTemplate, BuildFailure>) {
        let control = self.control.clone();
        let store = control.inner.store.clone();
        let stop = control.inner.tasks.stopping();
        let at = now();
        // A first try at once, so that an end is recorded in the order of the calls.
        let mut ending = store.builds().end(build, result.clone(), at);
        let tasks = self.control.inner.tasks.clone();
        tasks.spawn("record the end of a build", async move {
            while let Err(error) = ending.recorded().await {
                tracing::error!(error = %Chain(&error), %build, "the end of a build is not recorded");
                tokio::select! {
                    () = tokio::time::sleep(END_RETRY) => {}
                    // The next server takes the build up again.
                    () = stop.cancelled() => return,
                }
                ending = store.builds().end(build, result.clone(), at);
            }
            if let Ok(Some(record)) = store.builds().find(build).await
                && record.status == BuildStatus::Ready
            {
                let BuildRecord { team, template, .. } = record;
                control.warm_version(team, template, build).await;
            }
        });
    }
}
