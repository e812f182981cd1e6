//! Fakes of the ports, for tests.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_control::BuildReports;
use skep_types::{
    BuildFailure, BuildId, BuildLogEntry, BuiltTemplate, FilesHash, PulledImage,
    RegistryCredentials, TeamId,
};
use tokio::sync::watch;

use crate::archives::Archives;
use crate::images::{Images, PullError, PullNews};
use crate::sandboxes::{
    BuildSandbox, Command, Exit, OpenError, Output, RunError, SandboxOrder, Sandboxes, SealError,
    Stream, TransferError,
};

/// Content of the one file that every step of a fake sandbox changes.
pub const CHANGED: &str = "something";

/// The answer of a fake sandbox to a command.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It ends with this code and has printed this.
    Exit(i32, &'static str),
    /// It never ends.
    Hang,
    /// The agent refuses it.
    Refuse(&'static str, &'static str),
}

/// Sandboxes that run nothing, and note what they were asked for.
#[derive(Debug, Clone, Default)]
pub struct FakeSandboxes(Arc<State>);

#[derive(Debug, Default)]
struct State {
    answers: Mutex<HashMap<String, Answer>>,
    events: watch::Sender<Vec<String>>,
    commands: Mutex<Vec<Command>>,
    open: watch::Sender<usize>,
}

impl State {
    fn note(&self, event: String) {
        self.events.send_modify(|events| events.push(event));
    }
}

impl FakeSandboxes {
    /// Sets the answer to every command that has this argument. Others succeed silently.
    pub fn answer(&self, argument: &str, answer: Answer) {
        self.0.answers.lock().insert(argument.to_owned(), answer);
    }

    /// The events so far, in order: `open 2`, `run …`, `write …`, `seal`, `close`.
    pub fn events(&self) -> Vec<String> {
        self.0.events.borrow().clone()
    }

    /// Waits until an event has come.
    pub async fn wait_for_event(&self, wanted: &str) {
        let mut events = self.0.events.subscribe();
        let has_come = |events: &Vec<String>| events.iter().any(|event| event == wanted);
        // The sender lives as long as this.
        drop(events.wait_for(has_come).await);
    }

    /// The commands so far.
    pub fn commands(&self) -> Vec<Command> {
        self.0.commands.lock().clone()
    }

    /// Number of sandboxes that are open.
    pub fn open_count(&self) -> usize {
        *self.0.open.borrow()
    }
}

impl Sandboxes for FakeSandboxes {
    fn open(&self, order: SandboxOrder) -> BoxFuture<'_, Result<Arc<dyn BuildSandbox>, OpenError>> {
        let state = Arc::clone(&self.0);
        state.note(format!("open {}", order.layers.len()));
        state.open.send_modify(|count| *count += 1);
        let sandbox = FakeSandbox {
            state,
            closed: Mutex::default(),
        };
        let sandbox: Arc<dyn BuildSandbox> = Arc::new(sandbox);
        std::future::ready(Ok(sandbox)).boxed()
    }
}

#[derive(Debug)]
struct FakeSandbox {
    state: Arc<State>,
    closed: Mutex<bool>,
}

impl BuildSandbox for FakeSandbox {
    fn run<'a>(
        &'a self,
        command: &'a Command,
        output: Arc<dyn Output>,
    ) -> BoxFuture<'a, Result<Exit, RunError>> {
        let last = command.arguments.last().cloned().unwrap_or_default();
        self.state.note(format!("run {last}"));
        self.state.commands.lock().push(command.clone());
        let answers = self.state.answers.lock();
        let mut arguments = command.arguments.iter();
        let answer = arguments
            .find_map(|argument| answers.get(argument))
            .cloned();
        drop(answers);
        async move {
            match answer.unwrap_or(Answer::Exit(0, "")) {
                Answer::Exit(code, printed) => {
                    output.write(Stream::Stdout, printed.as_bytes());
                    Ok(Exit {
                        code: Some(code),
                        status: format!("exit status {code}"),
                    })
                }
                Answer::Hang => std::future::pending().await,
                Answer::Refuse(code, message) => Err(RunError::Refused {
                    code: code.to_owned(),
                    message: message.to_owned(),
                }),
            }
        }
        .boxed()
    }

    fn write(&self, path: String, _content: File) -> BoxFuture<'_, Result<(), TransferError>> {
        let name = path
            .rsplit_once('-')
            .map_or(path.as_str(), |(name, _)| name);
        self.state.note(format!("write {name}"));
        std::future::ready(Ok(())).boxed()
    }

    fn seal(&self, into: PathBuf, limit: u64) -> BoxFuture<'_, Result<u64, SealError>> {
        self.state.note("seal".to_owned());
        let written = if CHANGED.len() as u64 > limit {
            Err(SealError::TooLarge(limit))
        } else {
            std::fs::write(into.join("changed"), CHANGED)
                .map(|()| CHANGED.len() as u64)
                .map_err(|error| SealError::Failed(error.into()))
        };
        std::future::ready(written).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let was_closed = std::mem::replace(&mut *self.closed.lock(), true);
        if !was_closed {
            self.state.note("close".to_owned());
            self.state.open.send_modify(|count| *count -= 1);
        }
        std::future::ready(()).boxed()
    }
}

/// Uploads in memory.
#[derive(Debug, Default)]
pub struct FakeArchives(Mutex<HashMap<FilesHash, Vec<u8>>>);

impl FakeArchives {
    /// Adds an upload of every team.
    pub fn add(&self, files: FilesHash, content: Vec<u8>) {
        self.0.lock().insert(files, content);
    }
}

impl Archives for FakeArchives {
    fn open(&self, _team: &TeamId, files: &FilesHash) -> std::io::Result<Option<File>> {
        let Some(content) = self.0.lock().get(files).cloned() else {
            return Ok(None);
        };
        let mut file = tempfile::tempfile()?;
        file.write_all(&content)?;
        Ok(Some(file))
    }
}

/// A registry with one image.
#[derive(Debug)]
pub struct FakeImages {
    /// Its reference.
    pub reference: String,
    /// The image.
    pub image: PulledImage,
}

impl Images for FakeImages {
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        _credentials: Option<&'a RegistryCredentials>,
        _force: bool,
        news: PullNews<'a>,
    ) -> BoxFuture<'a, Result<PulledImage, PullError>> {
        let pulled = if reference == self.reference {
            news("layer 1: 8 MiB of 9 MiB".to_owned());
            Ok(self.image.clone())
        } else {
            Err(PullError {
                message: format!("image '{reference}' not found"),
                source: None,
            })
        };
        std::future::ready(pulled).boxed()
    }
}

/// Reports that are kept.
#[derive(Debug, Default)]
pub struct FakeReports {
    entries: Mutex<Vec<BuildLogEntry>>,
    end: watch::Sender<Option<Result<BuiltTemplate, BuildFailure>>>,
}

impl FakeReports {
    /// The entries so far.
    pub fn entries(&self) -> Vec<BuildLogEntry> {
        self.entries.lock().clone()
    }

    /// The lines so far.
    pub fn messages(&self) -> Vec<String> {
        let entries = self.entries();
        entries.into_iter().map(|entry| entry.message).collect()
    }

    /// Waits for the end.
    pub async fn end(&self) -> Result<BuiltTemplate, BuildFailure> {
        let end = self
            .end
            .subscribe()
            .wait_for(Option::is_some)
            .await
            .expect("the sender is in self")
            .clone();
        end.expect("waited for it")
    }
}

impl BuildReports for FakeReports {
    fn log(&self, _build: BuildId, entry: BuildLogEntry) {
        self.entries.lock().push(entry);
    }

    fn end(&self, _build: BuildId, result: Result<BuiltTemplate, BuildFailure>) {
        self.end.send_replace(Some(result));
    }
}
