//! `skep notebook run`: a notebook from its first cell to its last.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;
use skep_client::{Client, ContextRef, Execution, RunOptions};
use skep_jupyter::Output;
use skep_notebook::{Notebook, NotebookError, Parameter, read_output};
use skep_wire::interpreter::{AnswerLine, ContextOptions, Outcome, OutputForm};

use super::cells::Cells;
use super::file::NotebookFile;
use super::progress::{Progress, Told};
use crate::code::{
    LANGUAGES, Language, Screen, Session, SessionArgs, Signalled, Signals, TEMPLATES,
};
use crate::run::{Copies, duration};
use crate::{CliError, ExitKind, FileError, Suggested};

/// Interval at which the notebook is written while it runs.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `skep notebook run`.
#[derive(Debug, Clone, Args)]
pub struct NotebookRunArgs {
    /// Notebook to run
    #[arg(value_name = "NOTEBOOK")]
    notebook: PathBuf,

    /// File to write; `-` is standard output [default: NOTEBOOK with the suffix `.run.ipynb`]
    #[arg(long, short = 'o', value_name = "FILE", conflicts_with = "inplace")]
    output: Option<PathBuf>,

    /// Overwrite the notebook
    #[arg(long)]
    inplace: bool,

    /// Continue after errors
    #[arg(long)]
    allow_errors: bool,

    /// Interrupt a cell after this time, such as 30, 90s, 5m or 1h 30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,

    /// Set a variable of the notebook, after its cell with the tag `parameters`
    #[arg(long = "param", short = 'p', value_name = "NAME=VALUE")]
    parameters: Vec<Parameter>,

    /// Save the notebook after every cell instead of every two seconds
    #[arg(long)]
    save_every_cell: bool,

    /// Language [default: the notebook's, or python]
    #[arg(long, short = 'l', value_name = "NAME", value_parser = Suggested(LANGUAGES), hide_possible_values = true)]
    lang: Option<String>,

    /// Template of the sandbox [default: one that has the language]
    #[arg(long, short = 't', value_name = "NAME", conflicts_with = "sandbox", value_parser = Suggested(TEMPLATES), hide_possible_values = true)]
    template: Option<String>,

    /// Run in this existing sandbox, in a new context, and keep the sandbox
    #[arg(long, short = 's', value_name = "ID")]
    sandbox: Option<String>,

    /// Set an environment variable; without a value it is copied from this shell
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]")]
    env: Vec<String>,

    /// Run in this directory of the sandbox [default: the home of its user]
    #[arg(long, short = 'C', value_name = "DIR")]
    cwd: Option<String>,

    /// Copy a file or directory into the sandbox first
    #[arg(long, short = 'w', value_name = "PATH")]
    with: Vec<PathBuf>,

    /// Print one line of JSON per cell
    #[arg(long)]
    json: bool,
}

/// A notebook that was read, and what it needs.
#[derive(Debug)]
pub struct PreparedNotebook {
    args: NotebookRunArgs,
    session: SessionArgs,
    notebook: Notebook,
    language: Language,
    file: NotebookFile,
}

/// The end of a cell, or of the notebook.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Done,
    /// An error of this kind.
    Failed {
        kind: Outcome,
        /// True if nothing that follows can be right, so that the run stops.
        is_final: bool,
    },
    Left(Signalled),
}

impl NotebookRunArgs {
    /// Reads the notebook, before anything is started for it.
    ///
    /// # Errors
    ///
    /// If it is none, or cannot be written where it shall be.
    pub fn prepare(self) -> Result<PreparedNotebook, CliError> {
        let mut notebook = read_notebook(&self.notebook)?;
        let told = self
            .lang
            .as_deref()
            .map(skep_notebook::Language::named)
            .or_else(|| notebook.language());
        let language = Language::named(
            told.as_ref()
                .map_or("python", skep_notebook::Language::name),
        );
        let named = skep_notebook::Language::named(language.name());
        notebook.state_language(&named);
        let set = notebook.set_parameters(&self.parameters, &named);
        set.map_err(|error| {
            CliError::input(
                error.to_string(),
                "`--param` works for Python, JavaScript, TypeScript, R and Bash",
            )
        })?;
        let file = match &self.output {
            Some(path) => NotebookFile::at(path)?,
            None if self.inplace => NotebookFile::at(&self.notebook)?,
            None => NotebookFile::at(&NotebookFile::beside(&self.notebook))?,
        };
        if self.json && file == NotebookFile::StandardOutput {
            return Err(CliError::input(
                "standard output cannot take both the notebook and `--json`",
                "name a file with `--output`",
            ));
        }
        let session = SessionArgs {
            lang: Some(language.name().to_owned()),
            template: self.template.clone(),
            sandbox: self.sandbox.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            with: self.with.clone(),
            ..SessionArgs::default()
        };
        Ok(PreparedNotebook {
            args: self,
            session,
            notebook,
            language,
            file,
        })
    }
}

/// Reads a notebook.
///
/// # Errors
///
/// If it is none.
pub(crate) fn read_notebook(path: &Path) -> Result<Notebook, CliError> {
    let text = std::fs::read_to_string(path).map_err(FileError::on("read", path))?;
    Notebook::read(&text).map_err(|error| {
        let hint = match &error {
            NotebookError::Version { major } if *major < 4 => {
                "`jupyter nbconvert --to notebook --nbformat 4` makes a new one of it"
            }
            NotebookError::Version { .. } => "it is newer than this program",
            NotebookError::Json(_) => "`skep run` runs files that are no notebooks",
            NotebookError::NoNotebook { .. } | NotebookError::Cell { .. } => {
                "it may be damaged; Jupyter says more when it opens it"
            }
        };
        CliError {
            kind: ExitKind::Input,
            ..CliError::failure(ReadError {
                path: path.to_owned(),
                source: error,
            })
            .hint(hint)
        }
    })
}

#[derive(Debug, thiserror::Error)]
#[error("cannot run `{}`", path.display())]
struct ReadError {
    path: PathBuf,
    source: NotebookError,
}

impl PreparedNotebook {
    /// Templates that may be needed for a new sandbox, in the order in which they are tried; none
    /// if there is a sandbox already.
    pub fn templates(&self) -> Vec<String> {
        self.session.new_templates(&self.language)
    }

    /// Runs it, writes it, and returns the exit code that says how it ended.
    ///
    /// # Errors
    ///
    /// Whatever kept the cells from being run or the notebook from being written; what the cells
    /// do themselves is none.
    pub async fn run(
        self,
        client: Client,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<u8, CliError> {
        let mut signals = Signals::new()?;
        // Notebooks show colours, whatever terminal the command has.
        let screen = Screen {
            colours_output: true,
            ..Screen::default()
        };
        let Self {
            args,
            session: wanted,
            notebook,
            language,
            file,
        } = self;
        let copies = Copies::of(&wanted.with, None)?;
        let session = Session::open(client, &wanted, &language, &screen, environment).await?;
        let cells = Cells::new(notebook);
        let mut notebook_run = NotebookRun {
            progress: Progress::new(cells.runnable().len(), args.json),
            saved: Instant::now(),
            args: &args,
            file: &file,
            cells,
            session: &session,
            signals: &mut signals,
        };
        let ran = notebook_run.run(&copies, &language).await;
        // Whatever happened, what there is is kept. If no cell was run, there is nothing new.
        let is_new = ran.is_ok() || notebook_run.cells.count() > 0;
        let written = if is_new {
            file.write(&notebook_run.cells.text())
        } else {
            Ok(())
        };
        let concluded = notebook_run.conclude(ran.as_ref().ok());
        let closed = session.close(false).await;
        ran?;
        written?;
        closed?;
        concluded
    }
}

/// A notebook on its way.
struct NotebookRun<'a> {
    args: &'a NotebookRunArgs,
    file: &'a NotebookFile,
    cells: Cells,
    session: &'a Session,
    signals: &'a mut Signals,
    progress: Progress,
    saved: Instant,
}

impl NotebookRun<'_> {
    async fn run(&mut self, copies: &Copies, language: &Language) -> Result<Ending, CliError> {
        let directory = self.session.directory(self.args.cwd.as_deref());
        tokio::select! {
            copied = copies.send(self.session.sandbox(), &directory) => copied?,
            signal = self.signals.next() => return Ok(Ending::Left(signal)),
        }
        // What was copied there has made it.
        self.session.check_directory(&directory).await?;
        if self.args.sandbox.is_none() {
            let own_context = self.session.context(language, &directory).await?;
            let context = match &own_context {
                Some(id) => ContextRef::Id(id),
                None => ContextRef::Language(language.name()),
            };
            return self.run_cells(context).await;
        }
        // What others do in their sandbox and what we do must not meet.
        let contexts = self.session.sandbox().contexts();
        let context = contexts
            .create(
                language.name(),
                Some(&directory),
                &ContextOptions::default(),
            )
            .await?
            .id;
        let ran = self.run_cells(ContextRef::Id(&context)).await;
        let removed = contexts.remove(&context).await;
        let ending = ran?;
        removed?;
        Ok(ending)
    }

    async fn run_cells(&mut self, context: ContextRef<'_>) -> Result<Ending, CliError> {
        let mut options = self.session.options();
        let timeout = self.args.timeout;
        options.skep.limits.time_seconds = timeout.map(|timeout| timeout.as_secs_f64());
        options.skep.outputs = OutputForm::Jupyter;
        for index in self.cells.runnable() {
            match self.run_cell(index, context, &options).await? {
                Ending::Done => {}
                Ending::Failed {
                    is_final: false, ..
                } if self.args.allow_errors || self.cells.may_raise(index) => {}
                ending @ (Ending::Failed { .. } | Ending::Left(_)) => return Ok(ending),
            }
        }
        Ok(Ending::Done)
    }

    async fn run_cell(
        &mut self,
        index: usize,
        context: ContextRef<'_>,
        options: &RunOptions,
    ) -> Result<Ending, CliError> {
        let source = self.cells.cell(index).source().to_owned();
        self.progress.begin(&source);
        let (started, began) = (Instant::now(), now());
        let execution = self
            .session
            .sandbox()
            .interpreter(context)
            .execute(&source, options)
            .await?;
        self.cells.begin(index, began);
        let followed = self.follow(execution).await;
        self.cells.end(now());
        let ending = followed?;
        let outcome = ending.outcome().to_owned();
        let told = Told::Cell {
            number: index + 1,
            id: self.cells.cell(index).id(),
            outcome: &outcome,
            seconds: started.elapsed().as_secs_f64(),
        };
        let is_due = self.args.save_every_cell || self.saved.elapsed() >= SAVE_INTERVAL;
        if is_due && *self.file != NotebookFile::StandardOutput {
            self.file.write(&self.cells.text())?;
            self.saved = Instant::now();
        }
        self.progress.end(&told, &source)?;
        Ok(ending)
    }

    /// Listens to an execution. The first Ctrl-C interrupts it, the second leaves it.
    async fn follow(&mut self, mut execution: Execution) -> Result<Ending, CliError> {
        let mut failed = None;
        let mut interrupted = false;
        loop {
            tokio::select! {
                line = execution.next() => {
                    let Some(line) = line? else {
                        break;
                    };
                    failed = self.on(line)?.or(failed);
                }
                signal = self.signals.next() => match (signal, &execution.id) {
                    (Signalled::Interrupt, Some(id)) if !interrupted => {
                        interrupted = true;
                        self.interrupt(id).await?;
                    }
                    (signal, _) => return Ok(Ending::Left(signal)),
                },
            }
        }
        Ok(match failed {
            // Also if the code took no notice of it: somebody wants the notebook to end.
            _ if interrupted => Ending::Left(Signalled::Interrupt),
            Some(ending) => ending,
            None => Ending::Done,
        })
    }

    /// Writes one line down; says so if it is the end of all.
    fn on(&mut self, line: AnswerLine) -> Result<Option<Ending>, CliError> {
        match line {
            AnswerLine::NumberOfExecutions { execution_count } => {
                if let Some(run) = self.cells.last() {
                    run.count = Some(execution_count);
                    run.timing.accepted = Some(now());
                }
            }
            AnswerLine::Output { output, kind } => {
                let output = output
                    .read()
                    .and_then(read_output)
                    .map_err(CliError::failure)?;
                self.cells.output(&output);
                if let Output::Raised(raised) = &output {
                    let kind = kind.unwrap_or(Outcome::Runtime);
                    // A kernel that was lost took the variables of all cells with it.
                    let is_final = matches!(kind, Outcome::KernelDied | Outcome::Killed)
                        || ["ContextRestarting", "OutOfMemory"].contains(&raised.name.as_str());
                    return Ok(Some(Ending::Failed { kind, is_final }));
                }
            }
            AnswerLine::OutputLost { bytes } | AnswerLine::TooLarge { bytes } => {
                if let Some(run) = self.cells.last() {
                    run.transcript.leave_out(bytes);
                }
            }
            AnswerLine::Stdout { .. }
            | AnswerLine::Stderr { .. }
            | AnswerLine::Result(_)
            | AnswerLine::Error(_) => {
                return Err(CliError::failure("the server does not know notebooks")
                    .hint("it must be a Skep server of this version or newer"));
            }
            // Not asked for, so not sent: nobody sits beside a notebook that runs.
            AnswerLine::InputRequest { .. }
            | AnswerLine::ContextRestarted { .. }
            | AnswerLine::Receipt { .. }
            | AnswerLine::Keepalive
            | AnswerLine::EndOfExecution
            | AnswerLine::Unknown => {}
        }
        Ok(None)
    }

    async fn interrupt(&self, id: &str) -> Result<(), CliError> {
        self.progress
            .note("interrupting; Ctrl-C again leaves the cell as it is");
        match self.session.sandbox().executions().interrupt(id).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Tells how it ended, and returns the exit code.
    fn conclude(&mut self, ending: Option<&Ending>) -> Result<u8, CliError> {
        let exit_code = match ending {
            Some(Ending::Done) => 0,
            Some(Ending::Failed { .. }) => 1,
            Some(Ending::Left(signal)) => signal.exit_code(),
            // The error that ended it has a code of its own.
            None => 2,
        };
        let output = match self.file {
            NotebookFile::StandardOutput => "-".to_owned(),
            NotebookFile::Path(path) => path.display().to_string(),
        };
        let outcome = ending.map_or("failed", Ending::outcome);
        self.progress.finish(&Told::Notebook {
            output: output.clone(),
            cells: self.cells.count(),
            outcome,
            exit_code,
        })?;
        if let Some(Ending::Failed { .. }) = ending {
            self.show_error();
        }
        if output != "-" && ending.is_some() {
            let cells = match self.cells.count() {
                1 => "1 cell".to_owned(),
                count => format!("{count} cells"),
            };
            self.progress.note(&format!("ran {cells}, wrote {output}"));
        }
        Ok(exit_code)
    }

    /// The traceback of the last cell.
    fn show_error(&mut self) {
        let Some(raised) = self.cells.last().and_then(|run| run.transcript.raised()) else {
            return;
        };
        let mut text = raised.traceback.join("\n");
        if !text.contains(&raised.name) {
            text.push_str(&format!("\n{}: {}", raised.name, raised.value));
        }
        let needs_input = raised.name == "StdinNotImplementedError";
        self.progress.note(text.trim());
        if needs_input {
            self.progress.note("hint: nobody answers a notebook that asks: give it values with `--param` or `--env`");
        }
    }
}

impl Ending {
    /// The result in one word.
    fn outcome(&self) -> &'static str {
        match self {
            Self::Done => Outcome::Ok.name(),
            Self::Failed { kind, .. } => kind.name(),
            Self::Left(_) => Outcome::Interrupted.name(),
        }
    }
}

fn now() -> i64 {
    Timestamp::now().as_microsecond()
}
