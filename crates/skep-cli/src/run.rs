//! `skep run`: a file or a piece of code in a sandbox, as if it ran here.

mod copying;
mod script;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use skep_client::{Client, ContextRef};
use skep_wire::interpreter::{Outcome, RaisedError};

use crate::CliError;
use crate::code::{
    Ending, Job, Language, OwnLine, Pictures, Question, Screen, ScreenPainter, Session,
    SessionArgs, Shows, Signals, Verdict, follow,
};
use crate::terminal::Terminal;
pub(crate) use copying::Copies;
use script::{Cell, Script};
use source::Source;

/// Arguments of `skep run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// File to run; `-` or none reads standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Run this code, and print its value
    #[arg(short = 'c', long = "code", value_name = "CODE")]
    code: Option<String>,

    #[command(flatten)]
    session: SessionArgs,

    /// Interrupt the code after this time, such as 30, 90s, 5m or 1h 30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,

    /// Print one line of JSON per event
    #[arg(long)]
    json: bool,

    /// Arguments of the code; those that begin with a dash come after `--`
    #[arg(trailing_var_arg = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// Code that was read, and what it needs.
#[derive(Debug)]
pub struct PreparedRun {
    args: RunArgs,
    source: Source,
    language: Language,
    /// The terminal at which a person answers what the code asks.
    terminal: Option<Terminal>,
}

/// Reads a positive duration: a number of seconds, or numbers with units such as `1h 30m`.
///
/// # Errors
///
/// What is wrong with it, in words.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => text
            .parse::<jiff::SignedDuration>()
            .and_then(Duration::try_from)
            .map_err(|error| error.to_string())?,
    };
    if parsed.is_zero() {
        return Err("a duration must be greater than zero".to_owned());
    }
    Ok(parsed)
}

impl RunArgs {
    /// Reads the code, before anything is started for it.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn prepare(mut self) -> Result<PreparedRun, CliError> {
        // Code that is given has no file, so what looks like one is its first argument.
        if self.code.is_some()
            && let Some(first) = self.file.take()
        {
            let first = first.into_os_string().into_string().map_err(|text| {
                CliError::input(
                    format!("the argument `{}` is not UTF-8", text.display()),
                    "give it in a file with `--with PATH`",
                )
            })?;
            self.arguments.insert(0, first);
        }
        let source = Source::read(self.file.as_deref(), self.code.as_deref())?;
        let language = source.language(self.session.language())?;
        if source.notebook.is_some() && !self.arguments.is_empty() {
            return Err(CliError::input(
                "a notebook takes no arguments",
                "`skep notebook run --param NAME=VALUE` sets variables of a notebook",
            ));
        }
        Ok(PreparedRun {
            args: self,
            source,
            language,
            terminal: None,
        })
    }
}

impl PreparedRun {
    /// Templates that may be needed for a new sandbox, in the order in which they are tried; none
    /// if there is a sandbox already.
    pub fn templates(&self) -> Vec<String> {
        self.args.session.new_templates(&self.language)
    }

    /// Returns true if the sandbox is to outlive the command.
    pub fn keeps_sandbox(&self) -> bool {
        self.args.session.keep
    }

    /// Runs it, and returns the exit code that says how it ended.
    ///
    /// # Errors
    ///
    /// Whatever kept the code from being run or followed; what the code itself does is none.
    pub async fn run(
        mut self,
        client: Client,
        screen: Screen,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<u8, CliError> {
        let mut signals = Signals::new()?;
        // Programs that read lines of JSON answer nothing.
        if !self.args.json {
            self.terminal = Terminal::open().map_err(CliError::failure)?;
        }
        let pictures = Pictures::new(self.args.session.save_dir.clone());
        let mut painter = ScreenPainter::new(screen.clone(), pictures, self.args.json);
        let session = Session::open(
            client,
            &self.args.session,
            &self.language,
            &screen,
            environment,
        )
        .await?;
        let ran = self.run_in(&session, &mut painter, &mut signals).await;
        let kept = self.args.session.keep.then(|| session.id().to_owned());
        let closed = session.close(self.args.session.keep).await;
        let code = ran?;
        closed?;
        if let Some(id) = kept {
            painter.note(&format!("sandbox {id} lives for an hour: `skep run --sandbox {id}`, `skep sandbox connect {id}`"))?;
        }
        painter.own(&OwnLine::Exit { code })?;
        Ok(code)
    }

    async fn run_in(
        &self,
        session: &Session,
        painter: &mut ScreenPainter,
        signals: &mut Signals,
    ) -> Result<u8, CliError> {
        painter.own(&OwnLine::Sandbox { id: session.id() })?;
        let directory = session.directory(self.args.session.cwd.as_deref());
        let copies = Copies::of(&self.args.session.with, self.source.file.as_deref())?;
        tokio::select! {
            copied = copies.send(session.sandbox(), &directory) => copied?,
            signal = signals.next() => return Ok(signal.exit_code()),
        }
        // What was copied there has made it.
        session.check_directory(&directory).await?;
        let path = self.source.name().map(|name| format!("{directory}/{name}"));
        let arguments = &self.args.arguments;
        let script = Script::new(&self.source, path.as_deref(), arguments, &self.language)?;
        let own_context = session.context(&self.language, &directory).await?;
        let context = match &own_context {
            Some(id) => ContextRef::Id(id),
            None => ContextRef::Language(self.language.name()),
        };
        if let Some(cells) = self.source.cells() {
            return self
                .run_cells(&cells, session, context, painter, signals)
                .await;
        }
        if let Some(question) = self.question() {
            session.try_language(&self.language).await?;
            return self.answer(&question, session, painter).await;
        }
        if let Some(preparation) = &script.preparation {
            let job = (preparation, context, script.shows);
            match self.execute(session, job, painter, signals).await? {
                Ending::Done(_) => {}
                Ending::Raised(error) => return self.judge(&error, session, painter).await,
                Ending::Left(signal) => return Ok(signal.exit_code()),
            }
        }
        let job = (&script.main, context, script.shows);
        match self.execute(session, job, painter, signals).await? {
            Ending::Done(_) => Ok(0),
            Ending::Raised(error) => self.judge(&error, session, painter).await,
            Ending::Left(signal) => Ok(signal.exit_code()),
        }
    }

    /// The question that the code is, if it was given as such.
    fn question(&self) -> Option<Question> {
        let code = self.args.code.as_deref().filter(|_| !self.args.json)?;
        Question::parse(code, &self.language)
    }

    /// Shows what the kernel knows of a name.
    async fn answer(
        &self,
        question: &Question,
        session: &Session,
        painter: &mut ScreenPainter,
    ) -> Result<u8, CliError> {
        let context = session.usual_context(&self.language).await?;
        let explained = match context {
            Some(context) => session.explain(&context, question).await?,
            None => None,
        };
        match explained {
            Some(text) => {
                painter.text(&(text.trim_end().to_owned() + "\n"))?;
                Ok(0)
            }
            None => {
                painter.note(&format!("nothing is known of {}", question.name))?;
                Ok(1)
            }
        }
    }

    /// Runs the cells of a notebook one after another, up to the first that fails.
    async fn run_cells(
        &self,
        cells: &[&str],
        session: &Session,
        context: ContextRef<'_>,
        painter: &mut ScreenPainter,
        signals: &mut Signals,
    ) -> Result<u8, CliError> {
        for code in cells {
            let cell = Cell::of(code);
            let job = (&cell, context, Shows::Values);
            match self.execute(session, job, painter, signals).await? {
                Ending::Done(_) => {}
                Ending::Raised(error) => return self.judge(&error, session, painter).await,
                Ending::Left(signal) => return Ok(signal.exit_code()),
            }
        }
        Ok(0)
    }

    async fn execute(
        &self,
        session: &Session,
        (cell, context, shows): (&Cell<'_>, ContextRef<'_>, Shows),
        painter: &mut ScreenPainter,
        signals: &mut Signals,
    ) -> Result<Ending, CliError> {
        let mut options = session.options();
        options.env.extend(cell.variables.clone());
        let timeout = self.args.timeout;
        options.skep.limits.time_seconds = timeout.map(|timeout| timeout.as_secs_f64());
        options.skep.allow_stdin = self.terminal.is_some();
        let job = Job {
            code: &cell.code,
            context,
            options: &options,
            shows,
            file: match self.source.notebook {
                // Its cells have no lines of the file.
                Some(_) => None,
                None => self.source.name().map(|name| (&self.language, name)),
            },
            terminal: self.terminal.as_ref(),
        };
        follow(session, job, painter, signals).await
    }

    /// Shows an error, unless the code left with it, and says what it means.
    async fn judge(
        &self,
        error: &RaisedError,
        session: &Session,
        painter: &mut ScreenPainter,
    ) -> Result<u8, CliError> {
        let verdict = Verdict::of(error, &self.language);
        let is_out_of_memory = error.kind == Some(Outcome::OutOfMemory);
        match &verdict.exit_message {
            Some(words) => painter.exit_message(words)?,
            None if verdict.left => {}
            // What follows says more.
            None if is_out_of_memory && error.name == "OutOfMemory" => {}
            None => painter.error(error)?,
        }
        if error.name == "StdinNotImplementedError" {
            painter.note("code can ask where standard input is a terminal only: give it values with `--env`, files with `--with` and arguments after `--`")?;
        }
        if is_out_of_memory {
            let size = session
                .memory()
                .await
                .map_or(String::new(), |size| format!(", {size} MiB"));
            painter.note(&format!("out of memory: the code needed more than the sandbox has{size}; a template says how much that is"))?;
        }
        Ok(verdict.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_is_seconds_without_one() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("1.5s", 1500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "0", "-1", "1d", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
