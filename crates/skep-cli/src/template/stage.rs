//! The build of one stage, through the routes that every client uses.

use skep_client::{
    BuildStatus, BuildStep, Client, NewTemplate, StartBuild, Template, TemplateBuild,
    TemplateVersion,
};
use skep_dockerfile::{CopySource, Position};

use super::build::{DockerfileArgs, Source};
use super::files::Files;
use super::plan::{self, Action, PlannedBase, PlannedStage};
use super::progress::{Progress, Shown};
use super::reference;
use crate::code::Signals;
use crate::{CliError, print_note};

/// Ready command of a template whose start command nobody waits for otherwise: long enough for one
/// that fails at once to be noticed.
const USUAL_READY: &str = "sleep 1";

/// Stage to build.
#[derive(Debug)]
pub(super) struct Order {
    /// Name of the template, perhaps with a tag.
    pub(super) name: String,
    pub(super) args: DockerfileArgs,
}

/// The end of a stage.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Built,
    Cancelled,
}

/// Result of a stage.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) name: String,
    pub(super) tags: Vec<String>,
    pub(super) version: TemplateVersion,
}

/// Builds stages one after another.
pub(super) struct StageBuilder<'a> {
    client: &'a Client,
    pub(super) order: Order,
    source: &'a Source,
    pub(super) progress: Progress,
    /// Templates that the name of a base may mean.
    templates: Vec<Template>,
    /// The stages that are built.
    done: Vec<Done>,
    signals: Option<Signals>,
}

/// A stage that is built.
#[derive(Debug)]
struct Done {
    build: TemplateBuild,
    /// User and directory that a template ends with whose file says nothing about them.
    user: String,
    directory: String,
}

/// Base of a stage.
#[derive(Debug)]
struct Found {
    image: Option<String>,
    template: Option<String>,
    user: String,
    directory: String,
}

impl<'a> StageBuilder<'a> {
    pub(super) async fn new(
        client: &'a Client,
        order: Order,
        source: &'a Source,
        progress: Progress,
    ) -> Result<Self, CliError> {
        Ok(Self {
            client,
            order,
            source,
            progress,
            templates: client.templates().list().await?,
            done: Vec::new(),
            signals: Some(Signals::new()?),
        })
    }

    /// Builds a stage; the last one is the template itself. Ctrl-C ends the build on the server.
    pub(super) async fn build(
        &mut self,
        stage: &PlannedStage,
        files: Vec<Option<Files>>,
        is_last: bool,
    ) -> Result<Ended, CliError> {
        let found = self.base(&stage.base).await?;
        let new = self.request(stage, is_last);
        let build = self.client.templates().build(&new).await?;
        let mut signals = self.signals.take().map_or_else(Signals::new, Ok)?;
        // In a box: what an upload keeps is much.
        let carrying = Box::pin(self.carry_out(stage, files, (&build, &found), is_last));
        let ended = tokio::select! {
            ended = carrying => Some(ended),
            _signal = signals.next() => None,
        };
        self.signals = Some(signals);
        match ended {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(error),
            None => {
                self.progress.finish();
                build.cancel().await?;
                print_note(&format!("build `{}` was cancelled", build.build_id()));
                return Ok(Ended::Cancelled);
            }
        }
        self.done.push(Done {
            build,
            user: found.user,
            directory: found.directory,
        });
        Ok(Ended::Built)
    }

    /// The template that was built.
    pub(super) async fn result(&mut self, client: &Client) -> Result<Built, CliError> {
        self.progress.finish();
        let done = self.done.last();
        let build = &done
            .ok_or_else(|| CliError::failure("nothing was built"))?
            .build;
        let version = client.templates().version(&build.reference()).await?;
        Ok(Built {
            name: reference::without_tag(&self.order.name).to_owned(),
            tags: build.tags().to_vec(),
            version,
        })
    }

    fn request(&self, stage: &PlannedStage, is_last: bool) -> NewTemplate {
        let args = &self.order.args;
        let (name, tags) = if is_last {
            (self.order.name.as_str(), args.tag.clone())
        } else {
            let tag = format!("stage-{}", stage.name);
            (reference::without_tag(&self.order.name), vec![tag])
        };
        NewTemplate {
            name: Some(name.to_owned()),
            tags: Some(tags).filter(|tags| !tags.is_empty()),
            cpu_count: args.cpu.map(i64::from),
            memory_mb: args.memory.map(i64::from),
            ..NewTemplate::default()
        }
    }

    /// Finds what a stage begins with: an earlier stage; a template of the team or of everybody; or
    /// else an image of a registry.
    async fn base(&self, base: &PlannedBase) -> Result<Found, CliError> {
        let name = match base {
            PlannedBase::Stage(index) => {
                let done = &self.done[*index];
                return Ok(Found {
                    image: None,
                    template: Some(done.build.reference()),
                    user: done.user.clone(),
                    directory: done.directory.clone(),
                });
            }
            PlannedBase::Named(name) => name,
        };
        let is_template = reference::may_be_template(name, &self.templates)
            && self.client.templates().exists(name).await?;
        if !is_template {
            return Ok(Found {
                image: Some(name.clone()),
                template: None,
                user: "user".to_owned(),
                directory: "/home/user".to_owned(),
            });
        }
        let version = self.client.templates().version(name).await?;
        let user = version.user.unwrap_or_else(|| "user".to_owned());
        let home = if user == "root" {
            "/root".to_owned()
        } else {
            format!("/home/{user}")
        };
        Ok(Found {
            image: None,
            template: Some(name.clone()),
            directory: version.workdir.unwrap_or(home),
            user,
        })
    }

    async fn carry_out(
        &mut self,
        stage: &PlannedStage,
        files: Vec<Option<Files>>,
        (build, found): (&TemplateBuild, &Found),
        is_last: bool,
    ) -> Result<(), CliError> {
        let mut steps = Vec::new();
        let mut shown = Vec::new();
        let mut copies = Vec::new();
        for (step, files) in stage
            .steps
            .iter()
            .zip(files.into_iter().chain(std::iter::repeat(None)))
        {
            shown.push(Shown {
                line: step.at.line,
                text: self.words(&step.action, step.at),
            });
            if let Some(files) = files {
                copies.push((steps.len(), step.at.line, files));
            }
            steps.push(self.step(&step.action));
        }
        if is_last {
            let mut end = |kind: &str, value: &str| {
                steps.push(plan::step(kind, [value.to_owned()]));
                shown.push(Shown {
                    line: stage.at.line,
                    text: format!("{kind} {value}"),
                });
            };
            if !stage.sets_user {
                end("USER", &found.user);
            }
            if !stage.sets_directory {
                end("WORKDIR", &found.directory);
            }
        }
        let ids = (build.template_id(), build.build_id());
        let name = if is_last {
            reference::without_tag(&self.order.name)
        } else {
            &stage.name
        };
        self.progress.stage(name, ids, shown)?;
        for (index, line, files) in copies {
            steps[index] = self.upload(build, &steps[index], line, files).await?;
        }
        let order = self.start_order(stage, found, steps, is_last);
        build.start(&order).await?;
        self.follow(stage, build).await
    }

    fn start_order(
        &self,
        stage: &PlannedStage,
        found: &Found,
        steps: Vec<BuildStep>,
        is_last: bool,
    ) -> StartBuild {
        let args = &self.order.args;
        let of_file = stage.start.as_ref().map(|start| start.value.clone());
        let start_cmd = args.start_cmd.clone().or(of_file).filter(|_| is_last);
        let usual = start_cmd.as_ref().map(|_| USUAL_READY.to_owned());
        StartBuild {
            from_image: found.image.clone(),
            from_template: found.template.clone(),
            force: Some(args.no_cache),
            steps: Some(steps),
            ready_cmd: args.ready_cmd.clone().filter(|_| is_last).or(usual),
            start_cmd,
            ..StartBuild::default()
        }
    }

    /// A step as it is sent; one that uploads files has no name of them yet.
    fn step(&self, action: &Action) -> BuildStep {
        let mode = |mode: Option<u32>| mode.map(|mode| format!("{mode:04o}")).unwrap_or_default();
        match action {
            Action::Step(step) => step.clone(),
            Action::Files(copy) => {
                // As in Docker they are root's, whoever the user of the step is.
                let owner = copy.owner.clone().unwrap_or_else(|| "0:0".to_owned());
                let destination = copy.destination.clone();
                plan::step("COPY", [String::new(), destination, owner, mode(copy.mode)])
            }
            Action::From { stage, copy } => {
                let owner = copy.owner.clone().unwrap_or_default();
                let mut words = vec![copy.destination.clone(), owner, mode(copy.mode)];
                if let CopySource::Stage(_, paths) | CopySource::Image(_, paths) = &copy.from {
                    words.extend(paths.iter().cloned());
                }
                BuildStep {
                    from_template: Some(self.done[*stage].build.reference()),
                    ..plan::step("COPY_FROM", words)
                }
            }
        }
    }

    /// The instruction of a step, as the file has it.
    fn words(&self, action: &Action, at: Position) -> String {
        let written = self.source.instruction(at.line);
        match action {
            Action::Step(step) if written.to_uppercase().starts_with("FROM") => {
                let args = step.args.as_deref().unwrap_or_default();
                format!("{} {}", step.kind, args.join(" "))
            }
            Action::Step(_) | Action::Files(_) | Action::From { .. } => written,
        }
    }

    async fn follow(
        &mut self,
        stage: &PlannedStage,
        build: &TemplateBuild,
    ) -> Result<(), CliError> {
        let mut log = build.log();
        while let Some(entries) = log.next().await? {
            for entry in &entries {
                self.progress.entry(entry)?;
            }
        }
        if log.status() == BuildStatus::Ready {
            return Ok(());
        }
        self.progress.failed();
        let reason = log.reason();
        let message = reason.map_or("the build failed", |reason| reason.message.as_str());
        let step = reason.and_then(|reason| reason.step.as_deref());
        Err(match step {
            None => CliError::failure(message.to_owned()),
            Some(step) => {
                let at = place(stage, step);
                self.source.error(at, &brief(message))
            }
        })
    }
}

/// Finds the line of the file that a failed part of a build is from.
fn place(stage: &PlannedStage, step: &str) -> Position {
    let number: Option<usize> = step.parse().ok();
    let of_step = number.and_then(|number| stage.steps.get(number.checked_sub(1)?));
    match (of_step, &stage.start) {
        (Some(step), _) => step.at,
        (None, Some(start)) if step == "finalize" => start.at,
        (None, _) => stage.at,
    }
}

/// The reason without the command, which the file shows better.
fn brief(message: &str) -> String {
    match message.strip_prefix("failed to run command '") {
        Some(rest) => match rest.rsplit_once("': ") {
            Some((_, status)) => format!("the command failed: {status}"),
            None => message.to_owned(),
        },
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_told_by_its_end() {
        assert_eq!(
            brief("failed to run command 'export A='x'; false': exit status 1"),
            "the command failed: exit status 1"
        );
        assert_eq!(brief("image 'x' not found"), "image 'x' not found");
    }
}
