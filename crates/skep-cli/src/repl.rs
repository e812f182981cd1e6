//! `skep repl`: a prompt that remembers.

mod command;
mod completeness;
mod copies;
mod editor;
mod history;
mod kernel;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use skep_client::{self as client, Client, CommandEvent, ContextRef};
use skep_wire::interpreter::{RaisedError, Usage};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::code::{
    Ending, Job, Language, Pictures, Question, Screen, ScreenPainter, Session, SessionArgs, Shows,
    Signalled, Signals, Verdict, follow,
};
use crate::terminal::Terminal;
use crate::{CliError, FileError, print_note};
use command::{Command, HELP};
use editor::{Editor, Entered};
use kernel::Kernel;

/// Duration above which an execution's time is shown.
const WORTH_TELLING: Duration = Duration::from_secs(2);

/// Arguments of `skep repl`.
#[derive(Debug, Clone, Args)]
pub struct ReplArgs {
    #[command(flatten)]
    session: SessionArgs,
}

/// Decision after an input: another prompt, or the end.
enum Next {
    Prompt,
    Leave(u8),
}

/// A prompt and what it talks to.
struct Repl<'a> {
    session: &'a Session,
    language: Language,
    /// The context, if it is not the usual one of the language.
    context: Option<String>,
    directory: String,
    painter: ScreenPainter,
    signals: Signals,
    /// The terminal at which a person answers what the code asks.
    terminal: Option<Terminal>,
    /// The context that is asked for completions, and its language.
    asked: Option<(Language, String)>,
}

impl ReplArgs {
    /// Templates that may be needed for a new sandbox, in the order in which they are tried; none
    /// if there is a sandbox already.
    pub fn templates(&self) -> Vec<String> {
        self.session.new_templates(&self.language())
    }

    /// Returns true if the sandbox is to outlive the command.
    pub fn keeps_sandbox(&self) -> bool {
        self.session.keep
    }

    fn language(&self) -> Language {
        self.session.language().unwrap_or_else(Language::usual)
    }

    /// Prompts until the person leaves.
    ///
    /// # Errors
    ///
    /// If there is no terminal, or no sandbox.
    pub async fn run(
        self,
        client: Client,
        screen: Screen,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<u8, CliError> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            let hint = "`skep run` runs what it reads there";
            return Err(CliError::input("standard input is not a terminal", hint));
        }
        let settings =
            tcgetattr(&stdin).map_err(|error| CliError::failure(std::io::Error::from(error)))?;
        let language = self.language();
        let args = &self.session;
        let histories = history::directory(&environment);
        let session = Session::open(client, args, &language, &screen, environment).await?;
        let left = self.prompt_in(&session, language, screen, histories).await;
        // A prompt that a signal has ended could not do it itself.
        tcsetattr(&stdin, OptionalActions::Drain, &settings).ok();
        let kept = args.keep.then(|| session.id().to_owned());
        let closed = session.close(args.keep).await;
        let code = left?;
        closed?;
        if let Some(id) = kept {
            print_note(&format!(
                "sandbox {id} lives for an hour: `skep repl --sandbox {id}`"
            ));
        }
        Ok(code)
    }

    async fn prompt_in(
        &self,
        session: &Session,
        language: Language,
        screen: Screen,
        histories: Option<PathBuf>,
    ) -> Result<u8, CliError> {
        let directory = session.directory(self.session.cwd.as_deref());
        // Said now and not after the first entry.
        session.try_language(&language).await?;
        let copies = crate::run::Copies::of(&self.session.with, None)?;
        copies.send(session.sandbox(), &directory).await?;
        // What was copied there has made it.
        session.check_directory(&directory).await?;
        let context = session.context(&language, &directory).await?;
        let pictures = Pictures::new(self.session.save_dir.clone());
        let mut repl = Repl {
            session,
            language,
            context,
            directory,
            painter: ScreenPainter::new(screen.clone(), pictures, false),
            signals: Signals::new()?,
            terminal: Terminal::open().map_err(CliError::failure)?,
            asked: None,
        };
        repl.painter.note(&format!(
            "{} in sandbox {}; :help says more, Ctrl-D leaves",
            repl.language.title(),
            session.id()
        ))?;
        let mut editor = Editor::open(&repl.language, histories, screen.colours_output)?;
        loop {
            editor.speak(&repl.language)?;
            editor.ask(repl.kernel().await?);
            let entered = {
                let reading = editor.read();
                tokio::pin!(reading);
                loop {
                    tokio::select! {
                        entered = &mut reading => break entered?,
                        signal = repl.signals.next() => match signal {
                            // The editor reads Ctrl-C as a key; this one came a moment too late.
                            Signalled::Interrupt => {}
                            Signalled::Terminate | Signalled::HangUp => {
                                return Ok(signal.exit_code());
                            }
                        },
                    }
                }
            };
            let next = match entered {
                Entered::Nothing => Next::Prompt,
                Entered::End => Next::Leave(0),
                Entered::Text(text) => repl.enter(&text).await?,
            };
            if let Next::Leave(code) = next {
                editor.keep_history()?;
                return Ok(code);
            }
        }
    }
}

impl Repl<'_> {
    async fn enter(&mut self, text: &str) -> Result<Next, CliError> {
        if text.trim().is_empty() {
            return Ok(Next::Prompt);
        }
        if let Some(question) = Question::parse(text, &self.language) {
            return match self.explain(&question).await {
                Ok(()) => Ok(Next::Prompt),
                Err(error) => self.complain(&error),
            };
        }
        match Command::parse(text) {
            None => self.execute(text).await,
            Some(Ok(command)) => match self.obey(command).await {
                Ok(next) => Ok(next),
                Err(error) => self.complain(&error),
            },
            Some(Err(complaint)) => {
                self.painter.note(&complaint)?;
                Ok(Next::Prompt)
            }
        }
    }

    async fn obey(&mut self, command: Command) -> Result<Next, CliError> {
        match command {
            Command::Help => print_note(HELP),
            Command::Leave => return Ok(Next::Leave(0)),
            Command::Language(language) => {
                self.session.try_language(&language).await?;
                let directory = self.directory.clone();
                self.context = self.session.context(&language, &directory).await?;
                self.language = language;
                let title = self.language.title().to_owned();
                self.painter.note(&format!("{title} from here on"))?;
            }
            Command::Reset => {
                self.restart().await?;
                self.painter.note("started anew; all variables are gone")?;
            }
            Command::Fork => self.fork().await?,
            Command::Checkpoint => self.checkpoint().await?,
            Command::Back(checkpoint) => self.go_back(checkpoint).await?,
            Command::Context(id) => self.change_context(&id).await?,
            Command::Save(path) => self.save(&path).await?,
            Command::SaveDirectory(path) => {
                self.painter
                    .note(&format!("pictures are kept in {}", path.display()))?;
                self.painter.keep_pictures(Pictures::new(Some(path)));
            }
            Command::Files(path) => self.list_files(path.as_deref()).await?,
        }
        Ok(Next::Prompt)
    }

    async fn execute(&mut self, code: &str) -> Result<Next, CliError> {
        // A Ctrl-C from before is not for this code.
        while timeout(Duration::ZERO, self.signals.next()).await.is_ok() {}
        let mut options = self.session.options();
        options.skep.allow_stdin = self.terminal.is_some();
        let job = Job {
            code,
            context: match &self.context {
                Some(id) => ContextRef::Id(id),
                None => ContextRef::Language(self.language.name()),
            },
            options: &options,
            shows: Shows::Values,
            file: None,
            terminal: self.terminal.as_ref(),
        };
        let followed = follow(self.session, job, &mut self.painter, &mut self.signals).await;
        let next = match followed {
            Ok(Ending::Done(usage)) => self.done(&usage)?,
            Ok(Ending::Raised(error)) => self.raised(&error)?,
            Ok(Ending::Left(Signalled::Interrupt)) => {
                self.painter
                    .note("the code is left to itself; :reset ends it")?;
                Next::Prompt
            }
            Ok(Ending::Left(signal)) => Next::Leave(signal.exit_code()),
            Err(error) => return self.complain(&error),
        };
        self.painter.begin_line()?;
        Ok(next)
    }

    fn done(&mut self, usage: &Usage) -> Result<Next, CliError> {
        let wall = Duration::from_micros(usage.wall_us);
        if wall >= WORTH_TELLING {
            self.painter.note(&format!("{:.1} s", wall.as_secs_f32()))?;
        }
        Ok(Next::Prompt)
    }

    fn raised(&mut self, error: &RaisedError) -> Result<Next, CliError> {
        let verdict = Verdict::of(error, &self.language);
        if error.name == "SystemExit" && verdict.left {
            if let Some(words) = &verdict.exit_message {
                self.painter.exit_message(words)?;
            }
            return Ok(Next::Leave(verdict.code));
        }
        match (error.exit_status, verdict.left) {
            (Some(status), _) => self.painter.note(&format!(
                "the code ended its interpreter with status {status}; all variables are gone"
            ))?,
            (None, true) => self
                .painter
                .note(&format!("exit status {}", verdict.code))?,
            (None, false) => self.painter.error(error)?,
        }
        Ok(Next::Prompt)
    }

    /// Shows what went wrong with the platform, and prompts again: the sandbox may live.
    fn complain(&mut self, error: &CliError) -> Result<Next, CliError> {
        let chain = skep_telemetry::Chain(error.source.as_ref()).to_string();
        self.painter.note(&format!("error: {chain}"))?;
        for hint in &error.hints {
            self.painter.note(&format!("hint: {hint}"))?;
        }
        Ok(Next::Prompt)
    }

    async fn restart(&self) -> Result<(), CliError> {
        match self.context_id().await? {
            Some(id) => Ok(self.session.sandbox().contexts().restart(&id).await?),
            // It has not run anything yet.
            None => Ok(()),
        }
    }

    async fn save(&mut self, path: &Path) -> Result<(), CliError> {
        let Some(id) = self.context_id().await? else {
            return self.painter.note("nothing has happened yet");
        };
        let notebook = self.session.sandbox().contexts().notebook(&id).await?;
        std::fs::write(path, notebook).map_err(FileError::on("write", path))?;
        self.painter.note(&format!("saved {}", path.display()))
    }

    /// The context that code runs in, if there is one already.
    async fn context_id(&self) -> Result<Option<String>, CliError> {
        if self.context.is_some() {
            return Ok(self.context.clone());
        }
        self.session.usual_context(&self.language).await
    }

    /// The kernel that completes what is typed. It is looked for once for each language.
    async fn kernel(&mut self) -> Result<Option<Kernel>, CliError> {
        if self
            .asked
            .as_ref()
            .is_none_or(|(language, _)| *language != self.language)
        {
            let context = self.context_id().await?;
            self.asked = context.map(|context| (self.language.clone(), context));
        }
        Ok(self.asked.as_ref().map(|(_, context)| Kernel {
            contexts: self.session.sandbox().contexts(),
            context: context.clone(),
            runtime: Handle::current(),
        }))
    }

    /// Shows what the kernel knows of a name.
    async fn explain(&mut self, question: &Question) -> Result<(), CliError> {
        let Some(context) = self.context_id().await? else {
            return self.painter.note("nothing has happened yet");
        };
        match self.session.explain(&context, question).await? {
            Some(text) => self.painter.text(&(text.trim_end().to_owned() + "\n")),
            None => {
                let name = &question.name;
                self.painter.note(&format!("nothing is known of {name}"))
            }
        }
    }

    async fn list_files(&mut self, path: Option<&str>) -> Result<(), CliError> {
        let list = client::Command::new("ls")
            .args(["-la", "--human-readable", "--", path.unwrap_or(".")])
            .cwd(&self.directory);
        let mut stream = self.session.sandbox().commands().start(list).await?;
        while let Some(event) = stream.next().await? {
            match event {
                CommandEvent::Stdout(bytes)
                | CommandEvent::Stderr(bytes)
                | CommandEvent::Terminal(bytes) => {
                    self.painter.text(&String::from_utf8_lossy(&bytes))?;
                }
                CommandEvent::Started(_) | CommandEvent::Ended { .. } => {}
            }
        }
        Ok(())
    }
}
