//! `skep template build ./Dockerfile`

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use skep_client::Client;
use skep_dockerfile::{Dockerfile, Note, Position};

use super::context::{Context, ContextError};
use super::files::Files;
use super::plan::{Action, Plan, plan};
use super::progress::{Progress, Told};
use super::size;
use super::stage::{Ended, Order, StageBuilder};
use crate::{CliError, ExitKind, FileError, print_line, print_note};

/// Names of Dockerfiles in a directory, the first that is there.
const NAMES: [&str; 2] = ["Dockerfile", "e2b.Dockerfile"];

/// Exit code of a build that its user has ended.
const INTERRUPTED: u8 = 130;

/// Arguments of a build of a Dockerfile.
#[derive(Debug, Clone, Args)]
pub struct DockerfileArgs {
    /// Name of the new template, perhaps with a tag: `app` or `app:v1`
    #[arg(long, short = 'n', value_name = "NAME")]
    pub name: Option<String>,
    /// Give the version this tag; several may be given [default: default]
    #[arg(long, short = 't', value_name = "TAG")]
    pub tag: Vec<String>,
    /// Directory that COPY copies from [default: the directory of the Dockerfile]
    #[arg(long, value_name = "DIR")]
    pub context: Option<PathBuf>,
    /// Value of an ARG
    #[arg(long, value_name = "NAME=VALUE")]
    pub build_arg: Vec<String>,
    /// Stage to build [default: the last]
    #[arg(long, value_name = "STAGE")]
    pub target: Option<String>,
    /// Build every step anew
    #[arg(long)]
    pub no_cache: bool,
    /// Processors of its sandboxes
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Memory of its sandboxes, in MiB
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u32>,
    /// Command that runs in every sandbox [default: ENTRYPOINT and CMD]
    #[arg(long, value_name = "COMMAND")]
    pub start_cmd: Option<String>,
    /// Command that succeeds once a sandbox is ready [default: a second after the start command]
    #[arg(long, value_name = "COMMAND")]
    pub ready_cmd: Option<String>,
}

/// A Dockerfile with the text that errors show.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The instruction that begins at a line, on one line.
    pub(super) fn instruction(&self, line: usize) -> String {
        let first = self
            .text
            .lines()
            .nth(line.saturating_sub(1))
            .unwrap_or_default()
            .trim();
        match first.strip_suffix('\\') {
            Some(text) => format!("{} …", text.trim_end()),
            None => first.to_owned(),
        }
    }

    /// An error about a place, with the line below it.
    pub(super) fn error(&self, at: Position, message: &str) -> CliError {
        CliError {
            kind: ExitKind::Input,
            source: format!("{}\n{}", self.place(at, message), self.quote(at)).into(),
            hints: Vec::new(),
        }
    }

    fn place(&self, at: Position, message: &str) -> String {
        format!("{}:{at}: {message}", self.path.display())
    }

    fn quote(&self, at: Position) -> String {
        let line = self.text.lines().nth(at.line.saturating_sub(1));
        format!("{:>5} | {}", at.line, line.unwrap_or_default())
    }

    /// One error of all that is wrong.
    fn errors(&self, notes: &[Note]) -> CliError {
        let texts: Vec<_> = notes
            .iter()
            .map(|note| {
                let place = self.place(note.at, &note.message);
                format!("{place}\n{}", self.quote(note.at))
            })
            .collect();
        CliError::input(
            texts.join("\n"),
            "docs/templates.md tells what of a Dockerfile works here",
        )
    }
}

impl DockerfileArgs {
    /// Builds the Dockerfile at `path`, or the one in that directory, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`], with the place in the file that is wrong or that failed.
    pub async fn run(&self, path: &Path, client: &Client, is_json: bool) -> Result<u8, CliError> {
        let begun = Instant::now();
        let name = self.name.as_deref().ok_or_else(|| {
            CliError::input(
                "the template has no name",
                "`--name` gives it one: `-n app`",
            )
        })?;
        let path = dockerfile(path)?;
        let text = fs::read_to_string(&path).map_err(FileError::on("read", &path))?;
        let source = Source { path, text };
        let plan = self.plan(&source)?;
        let uploads = self.uploads(&source, &plan)?;
        let progress = Progress::new(is_json);
        let order = Order {
            name: name.to_owned(),
            args: self.clone(),
        };
        let mut builder = StageBuilder::new(client, order, &source, progress).await?;
        let mut uploads = uploads.into_iter();
        let last = plan.stages.len().saturating_sub(1);
        for (index, stage) in plan.stages.iter().enumerate() {
            let files = uploads.next().unwrap_or_default();
            match builder.build(stage, files, index == last).await? {
                Ended::Built => {}
                Ended::Cancelled => return Ok(INTERRUPTED),
            }
        }
        let built = builder.result(client).await?;
        if is_json {
            let told = Told::Built {
                template_id: &built.version.template_id,
                build_id: &built.version.version.build_id,
                content_id: built.version.version.content_id.as_deref(),
                name: &built.name,
                tags: &built.tags,
                bytes: built.version.version.bytes,
                seconds: begun.elapsed().as_secs_f64(),
            };
            builder.progress.tell(&told)?;
            return Ok(0);
        }
        let bytes = built.version.version.bytes.unwrap_or_default();
        print_note(&format!(
            "built `{}` ({}) in {:.1} s, {} beyond its base",
            built.name,
            built.tags.join(", "),
            begun.elapsed().as_secs_f64(),
            size(bytes),
        ));
        print_line(&format!(
            "{}:{}",
            built.name, built.version.version.build_id
        ))?;
        Ok(0)
    }

    fn plan(&self, source: &Source) -> Result<Plan, CliError> {
        let mut arguments = Vec::new();
        for argument in &self.build_arg {
            arguments.push(argument.split_once('=').ok_or_else(|| {
                CliError::input(
                    format!("`--build-arg {argument}` has no value"),
                    "write NAME=VALUE",
                )
            })?);
        }
        for (name, value) in platform() {
            if !arguments.iter().any(|(given, _)| *given == name) {
                arguments.push((name, value));
            }
        }
        let mut file = Dockerfile::read(&source.text, &arguments)
            .map_err(|errors| source.errors(&errors.0))?;
        for warning in &file.warnings {
            let text = source.place(warning.at, &warning.message);
            print_note(&format!("warning: {text}"));
        }
        if let Some(target) = &self.target {
            file = file.up_to(target).ok_or_else(|| {
                CliError::input(
                    format!("there is no stage `{target}`"),
                    "`--target` takes a name after AS, or the number of a stage from 0 on",
                )
            })?;
        }
        plan(&file).map_err(|notes| source.errors(&notes))
    }

    /// The files of every copy, so that one that is missing is told before anything runs.
    fn uploads(&self, source: &Source, plan: &Plan) -> Result<Vec<Vec<Option<Files>>>, CliError> {
        let above = source.path.parent().unwrap_or(Path::new("."));
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        };
        let root = self.context.as_deref().unwrap_or(above);
        let context = Context::open(root, &source.path).map_err(in_context)?;
        let mut errors = Vec::new();
        let mut uploads = Vec::new();
        for stage in &plan.stages {
            let mut of_stage = Vec::new();
            for step in &stage.steps {
                let Action::Files(copy) = &step.action else {
                    of_stage.push(None);
                    continue;
                };
                match files_of(&context, copy) {
                    Ok(files) => of_stage.push(Some(files)),
                    Err(error) => errors.push(Note {
                        at: step.at,
                        message: error.to_string(),
                    }),
                }
            }
            uploads.push(of_stage);
        }
        if errors.is_empty() {
            Ok(uploads)
        } else {
            Err(source.errors(&errors))
        }
    }
}

fn files_of(context: &Context, copy: &skep_dockerfile::Copy) -> Result<Files, ContextError> {
    use skep_dockerfile::CopySource;
    match &copy.from {
        CopySource::Context(sources) => context.files(sources, &copy.destination, copy.unpacks),
        CopySource::Inline(documents) => Ok(Files::inline(documents, &copy.destination)),
        // They are not uploaded.
        CopySource::Stage(..) | CopySource::Image(..) => Ok(Files::together()),
    }
}

fn in_context(error: ContextError) -> CliError {
    CliError {
        kind: ExitKind::Input,
        source: Box::new(error),
        hints: Vec::new(),
    }
}

/// The Dockerfile that a path means.
fn dockerfile(path: &Path) -> Result<PathBuf, CliError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let mut names = NAMES.iter().map(|name| path.join(name));
    names.find(|path| path.is_file()).ok_or_else(|| {
        CliError::input(
            format!("there is no Dockerfile in `{}`", path.display()),
            "give the path of the file",
        )
    })
}

/// Arguments that are there without being declared: images are those for the host of the server,
/// which is taken to be like this one.
fn platform() -> Vec<(&'static str, &'static str)> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let whole = match architecture {
        "amd64" => "linux/amd64",
        "arm64" => "linux/arm64",
        _ => "linux",
    };
    vec![
        ("TARGETARCH", architecture),
        ("BUILDARCH", architecture),
        ("TARGETOS", "linux"),
        ("BUILDOS", "linux"),
        ("TARGETPLATFORM", whole),
        ("BUILDPLATFORM", whole),
    ]
}
