//! A kernel that runs no process, for tests of everything above kernels.
//!
//! Its language has one instruction per line:
//!
//! | instruction | what it does |
//! |---|---|
//! | `say <text>` | prints |
//! | `mutter <text>` | prints without a line break |
//! | `value <text>` | shows the text as the value of the cell |
//! | `raise <name> <text>` | ends the cell with an exception |
//! | `env <name>` | prints a variable |
//! | `remember <text>` / `recall` | keeps a text / prints it, or raises `NameError` |
//! | `flood <count>` | prints so many lines |
//! | `wait` | waits until it is interrupted |
//! | `stuck` | waits, and ignores interrupts |
//! | `die <code>` | ends the kernel |
//! | `exit` | asks the kernel to end after the cell |

pub mod plain_files;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_jupyter::frame::Request;
use skep_jupyter::{Bundle, Envelope, JsonText, Message, Nature, Reply, Stream};
use skep_types::Secrets;
use tokio_util::sync::CancellationToken;

use crate::contexts::SandboxSettings;
use crate::kernel::{Event, Exit, Kernel, Launcher, StartError};
use crate::meter::{Meter, Usage};

/// A [`Launcher`] of fake kernels, and a test's control over them.
#[derive(Debug, Default)]
pub struct FakeKernels {
    /// Kernels that were started.
    pub starts: AtomicU64,
    /// Kernels that are gone.
    pub ends: AtomicU64,
    /// Languages for which another kernel was anticipated.
    pub anticipated: Mutex<Vec<String>>,
    /// Messages that were taken from kernels.
    pub taken: AtomicU64,
    /// Lets the next starts fail while it is set.
    pub broken: AtomicBool,
    /// The meter that all kernels share.
    pub meter: Arc<FakeMeter>,
    newest: Mutex<CancellationToken>,
}

/// A meter that shows what a test wants to be seen.
#[derive(Debug, Default)]
pub struct FakeMeter {
    /// The usage to report.
    pub usage: Mutex<Usage>,
    /// The limit of memory that is set now.
    pub limit: Mutex<Option<u64>>,
    /// Number of calls of [`Meter::kill`].
    pub kills: AtomicU64,
}

impl FakeMeter {
    /// Every cell takes a millisecond.
    fn work(&self) {
        let mut usage = self.usage.lock();
        usage.processor += Duration::from_millis(1);
    }
}

impl Meter for FakeMeter {
    fn usage(&self) -> Option<Usage> {
        Some(*self.usage.lock())
    }

    fn reset_peak(&self) {}

    fn is_sampled(&self) -> bool {
        false
    }

    fn limit_memory(&self, limit: Option<u64>) -> io::Result<()> {
        let used = self.usage().and_then(|usage| usage.memory).unwrap_or(0);
        if limit.is_some_and(|limit| limit < used) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        *self.limit.lock() = limit;
        Ok(())
    }

    fn kill(&self) {
        self.kills.fetch_add(1, Ordering::SeqCst);
    }
}

impl FakeKernels {
    /// Ends the newest kernel, as a kill from outside would.
    pub fn kill_newest(&self) {
        let newest = self.newest.lock();
        newest.cancel();
    }
}

impl Launcher for Arc<FakeKernels> {
    fn languages(&self) -> Vec<String> {
        vec!["python".to_owned(), "bash".to_owned()]
    }

    fn start<'a>(
        &'a self,
        language: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Kernel>, StartError>> {
        async move {
            if !self.languages().iter().any(|known| known == language) {
                return Err(StartError::NotInstalled {
                    language: language.to_owned(),
                    installed: self.languages(),
                });
            }
            if self.broken.load(Ordering::SeqCst) {
                return Err(StartError::Ended {
                    exit: Exit::Code(1),
                    kernel_stderr: "it is broken".to_owned(),
                });
            }
            self.starts.fetch_add(1, Ordering::SeqCst);
            let killed = CancellationToken::new();
            *self.newest.lock() = killed.clone();
            Ok(Box::new(FakeKernel::new(Arc::clone(self), killed)) as Box<dyn Kernel>)
        }
        .boxed()
    }

    fn anticipate(&self, language: &str) {
        let mut anticipated = self.anticipated.lock();
        anticipated.push(language.to_owned());
    }
}

/// Settings that a test can change.
#[derive(Debug, Default)]
pub struct FakeSettings {
    /// The sandbox's variables.
    pub environment: Mutex<BTreeMap<String, String>>,
    /// Secrets to report to every context.
    pub secrets: Mutex<Secrets>,
}

impl SandboxSettings for FakeSettings {
    fn environment(&self) -> BTreeMap<String, String> {
        self.environment.lock().clone()
    }

    fn directory(&self) -> String {
        "/home/user".to_owned()
    }

    fn secrets(&self) -> Secrets {
        self.secrets.lock().clone()
    }
}

/// States of a cell that does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Interruptible,
    Stuck,
}

struct FakeKernel {
    source: Arc<FakeKernels>,
    killed: CancellationToken,
    events: VecDeque<Event>,
    waiting: Option<(String, Waiting)>,
    count: u64,
    memory: Option<String>,
    sandbox: BTreeMap<String, String>,
    directory: String,
}

impl FakeKernel {
    fn new(source: Arc<FakeKernels>, killed: CancellationToken) -> Self {
        Self {
            source,
            killed,
            events: VecDeque::new(),
            waiting: None,
            count: 0,
            memory: None,
            sandbox: BTreeMap::new(),
            directory: "/home/user".to_owned(),
        }
    }

    fn tell(&mut self, parent: &str, message: Message) {
        self.events.push_back(Event::Message(Envelope {
            parent: Some(parent.to_owned()),
            time: Some(1_000_000),
            message,
        }));
    }

    fn say(&mut self, id: &str, text: &str) {
        let text = JsonText::string(&format!("{text}\n"));
        let stream = Stream::Stdout;
        self.tell(id, Message::Text { stream, text });
    }

    fn raise(&mut self, id: &str, name: &str, value: &str, nature: Nature) {
        let error = Message::Error {
            name: name.to_owned(),
            value: value.to_owned(),
            traceback: vec![format!("{name}: {value}")],
            nature,
        };
        self.tell(id, error);
    }

    fn finish(&mut self, id: &str, exiting: bool) {
        self.tell(id, Message::Reply(Reply::Done { exiting }));
        self.tell(id, Message::Idle);
        if exiting {
            self.events.push_back(Event::Ended(Exit::Code(0)));
        }
    }

    fn run(&mut self, id: &str, code: &str, variables: &BTreeMap<String, String>) {
        self.count += 1;
        self.source.meter.work();
        self.tell(id, Message::Busy);
        self.tell(id, Message::Input { count: self.count });
        let mut exiting = false;
        for line in code.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "say" => self.say(id, rest),
                "mutter" => {
                    let text = JsonText::string(rest);
                    let stream = Stream::Stdout;
                    self.tell(id, Message::Text { stream, text });
                }
                "value" => {
                    let entry = ("text/plain".to_owned(), JsonText::string(rest));
                    self.tell(id, Message::Value(Bundle::from(vec![entry])));
                }
                "env" => {
                    let value = variables.get(rest).or_else(|| self.sandbox.get(rest));
                    let text = value.cloned().unwrap_or_else(|| "unset".to_owned());
                    self.say(id, &text);
                }
                "cwd" => self.say(id, &self.directory.clone()),
                "remember" => self.memory = Some(rest.to_owned()),
                "recall" => match self.memory.clone() {
                    Some(memory) => self.say(id, &memory),
                    None => {
                        self.raise(id, "NameError", "nothing to recall", Nature::Runtime);
                        break;
                    }
                },
                "flood" => {
                    for number in 0..rest.parse().unwrap_or(0) {
                        self.say(id, &format!("line {number}"));
                    }
                }
                "raise" => {
                    let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
                    self.raise(id, name, value, Nature::Runtime);
                    break;
                }
                "wait" | "stuck" => {
                    let waiting = if word == "wait" {
                        Waiting::Interruptible
                    } else {
                        Waiting::Stuck
                    };
                    self.waiting = Some((id.to_owned(), waiting));
                    return;
                }
                "die" => {
                    let exit = Exit::Code(rest.parse().unwrap_or(1));
                    self.events.push_back(Event::Ended(exit));
                    return;
                }
                "exit" => exiting = true,
                _ => {
                    self.raise(id, "SyntaxError", line, Nature::Syntax);
                    break;
                }
            }
        }
        self.finish(id, exiting);
    }
}

impl Drop for FakeKernel {
    fn drop(&mut self) {
        self.source.ends.fetch_add(1, Ordering::SeqCst);
    }
}

impl Kernel for FakeKernel {
    fn send(&mut self, request: &Request<'_>) {
        match request {
            Request::Execute { id, code, env } => self.run(id, code, env),
            Request::Environment { variables, .. } => self.sandbox = (*variables).clone(),
            Request::Chdir { path, .. } => self.directory = (*path).to_owned(),
            Request::Shutdown { .. } => self.events.push_back(Event::Ended(Exit::Code(0))),
        }
    }

    fn receive(&mut self) -> BoxFuture<'_, Event> {
        async {
            if self.killed.is_cancelled() {
                return Event::Ended(Exit::Signal(9));
            }
            match self.events.pop_front() {
                Some(event) => {
                    self.source.taken.fetch_add(1, Ordering::SeqCst);
                    event
                }
                None => {
                    self.killed.cancelled().await;
                    Event::Ended(Exit::Signal(9))
                }
            }
        }
        .boxed()
    }

    fn interrupt(&mut self) -> io::Result<()> {
        if let Some((id, Waiting::Interruptible)) = self.waiting.clone() {
            self.waiting = None;
            self.raise(&id, "KeyboardInterrupt", "", Nature::Interrupted);
            self.finish(&id, false);
        }
        Ok(())
    }

    fn kill(&mut self) {
        self.killed.cancel();
    }

    fn keep(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.source.meter) as _
    }
}
