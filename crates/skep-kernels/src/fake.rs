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
//! | `ask <prompt>` | asks for input, prints the answer and ends the cell |
//! | `wait` | waits until it is interrupted |
//! | `stuck` | waits, and ignores interrupts |
//! | `die <code>` | ends the kernel |
//! | `exit` | asks the kernel to end after the cell |

mod meter;
pub mod plain_files;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_jupyter::frame::Request;
use skep_jupyter::{
    Answer, Bundle, Completeness, Envelope, InputRequest, JsonText, LanguageInfo, Message, Nature,
    Reply, Stream,
};
use skep_types::Secrets;
use tokio_util::sync::CancellationToken;

use crate::contexts::SandboxSettings;
use crate::kernel::{Event, Exit, ForkError, Kernel, Launcher, StartError};
use crate::meter::Meter;
pub use meter::FakeMeter;

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
    /// The reason for which Python kernels refuse to be copied while it is set. Those of other
    /// languages never can be.
    pub unforkable: Mutex<Option<String>>,
    /// Lets every kernel speak without end, and without giving way, while it is set.
    pub flooding: AtomicBool,
    /// The meter that all kernels share.
    pub meter: Arc<FakeMeter>,
    newest: Mutex<CancellationToken>,
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
            let kernel = FakeKernel::new(Arc::clone(self), killed, language);
            Ok(Box::new(kernel) as Box<dyn Kernel>)
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
    /// It says something without end, and ignores interrupts.
    Babbling,
}

struct FakeKernel {
    source: Arc<FakeKernels>,
    language: String,
    killed: CancellationToken,
    events: VecDeque<Event>,
    waiting: Option<(String, Waiting)>,
    /// Id of the request for input of the cell that waits.
    asked: Option<String>,
    count: u64,
    memory: Option<String>,
    sandbox: BTreeMap<String, String>,
    directory: String,
}

impl FakeKernel {
    fn new(source: Arc<FakeKernels>, killed: CancellationToken, language: &str) -> Self {
        Self {
            source,
            language: language.to_owned(),
            killed,
            events: VecDeque::new(),
            waiting: None,
            asked: None,
            count: 0,
            memory: None,
            sandbox: BTreeMap::new(),
            directory: "/home/user".to_owned(),
        }
    }

    /// A kernel that knows what this one knows.
    fn copy(&self) -> Self {
        let killed = CancellationToken::new();
        *self.source.newest.lock() = killed.clone();
        self.source.starts.fetch_add(1, Ordering::SeqCst);
        let mut copy = Self::new(Arc::clone(&self.source), killed, &self.language);
        copy.count = self.count;
        copy.memory.clone_from(&self.memory);
        copy.sandbox.clone_from(&self.sandbox);
        copy.directory.clone_from(&self.directory);
        copy
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

    /// Completes instructions, and what was remembered. `wait`, `stuck` and `die` do to a question
    /// what they do to a cell; `raise` fails with what was remembered, and `babble` speaks for ever.
    fn complete(&mut self, id: &str, code: &str) {
        let waiting = match code {
            "wait" => Waiting::Interruptible,
            "stuck" => Waiting::Stuck,
            "babble" => Waiting::Babbling,
            "die" => return self.events.push_back(Event::Ended(Exit::Code(1))),
            "raise" => {
                let value = self.memory.clone().unwrap_or_else(|| "no".to_owned());
                let failed = Reply::Failed {
                    name: "ValueError".to_owned(),
                    value,
                    exiting: false,
                };
                return self.tell(id, Message::Reply(failed));
            }
            _ => {
                let words = ["say", "recall", "remember"].map(str::to_owned);
                let known = words.into_iter().chain(self.memory.clone());
                let matches = known.filter(|word| word.starts_with(code)).collect();
                let end = u64::try_from(code.len()).unwrap_or_default();
                let answer = Answer::Completions {
                    matches,
                    start: 0,
                    end,
                };
                return self.tell(id, Message::Answer(answer));
            }
        };
        self.waiting = Some((id.to_owned(), waiting));
    }

    /// Asks for input, and waits for it like any cell that waits.
    fn request_input(&mut self, id: &str, prompt: &str) {
        let request = InputRequest {
            id: format!("input of {id}"),
            prompt: prompt.to_owned(),
            is_password: false,
        };
        self.asked = Some(request.id.clone());
        self.waiting = Some((id.to_owned(), Waiting::Interruptible));
        self.tell(id, Message::InputRequest(request));
    }

    fn take_input(&mut self, request: &str, value: Option<&str>) {
        if self.asked.as_deref() != Some(request) {
            return;
        }
        self.asked = None;
        if let Some((id, _)) = self.waiting.take() {
            match value {
                Some(value) => self.say(&id, &format!("got {value}")),
                None => self.raise(&id, "EOFError", "", Nature::Runtime),
            }
            self.finish(&id, false);
        }
    }

    fn run(
        &mut self,
        id: &str,
        code: &str,
        variables: &BTreeMap<String, String>,
        allows_input: bool,
    ) {
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
                "ask" if allows_input => return self.request_input(id, rest),
                "ask" => {
                    self.raise(id, "StdinNotImplementedError", rest, Nature::Runtime);
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
            Request::Execute {
                id,
                code,
                env,
                allow_stdin,
            } => self.run(id, code, env, *allow_stdin),
            Request::InputReply { parent, value } => self.take_input(parent, *value),
            Request::Environment { variables, .. } => self.sandbox = (*variables).clone(),
            Request::Chdir { path, .. } => self.directory = (*path).to_owned(),
            Request::Complete { id, code, .. } => self.complete(id, code),
            Request::Inspect { id, .. } => {
                let plain = ("text/plain".to_owned(), JsonText::string("an instruction"));
                let found = Bundle::from(vec![plain]);
                self.tell(id, Message::Answer(Answer::Inspection(Some(found))));
            }
            Request::IsComplete { id, .. } => {
                let answer = Answer::Completeness {
                    state: Completeness::Complete,
                    indent: String::new(),
                };
                self.tell(id, Message::Answer(answer));
            }
            Request::Info { id } => {
                let info = LanguageInfo {
                    language: "fake".to_owned(),
                    ..LanguageInfo::default()
                };
                self.tell(id, Message::Answer(Answer::Info(info)));
            }
            // A copy of this one does not stand still: it has nothing to do.
            Request::Fork { .. } | Request::Continue { .. } => {}
            Request::Shutdown { .. } => self.events.push_back(Event::Ended(Exit::Code(0))),
        }
    }

    fn receive(&mut self) -> BoxFuture<'_, Event> {
        async {
            if self.killed.is_cancelled() {
                return Event::Ended(Exit::Signal(9));
            }
            if self.source.flooding.load(Ordering::SeqCst) {
                self.say("nobody", "bla");
            }
            if let Some((_, Waiting::Babbling)) = self.waiting {
                // As a socket that always has something.
                tokio::task::coop::consume_budget().await;
                self.say("nobody", "bla");
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
            self.asked = None;
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

    fn fork(&mut self) -> BoxFuture<'_, Result<Box<dyn Kernel>, ForkError>> {
        let copy = match self.source.unforkable.lock().clone() {
            _ if self.language != "python" => Err(ForkError::Unsupported),
            _ if self.killed.is_cancelled() => Err(ForkError::Ended(Exit::Signal(9))),
            Some(reason) => Err(ForkError::Refused { reason }),
            None => Ok(Box::new(self.copy()) as Box<dyn Kernel>),
        };
        async { copy }.boxed()
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.source.meter) as _
    }
}
