//! A kernel of somebody else's: Jupyter's messages over ZeroMQ, on Unix sockets.
//!
//! Such a kernel publishes its output and drops what is not taken in time, so one task always
//! reads (`zmq_kernel/output.rs`). What its owner has not taken yet waits in memory, and when
//! that is too much the kernel's processes are stopped until the owner has caught up.

mod output;
mod requests;
mod runtime_directory;
mod socket;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::Signal;
use skep_jupyter::encoder::Encoder;
use skep_jupyter::frame::Request;
use skep_jupyter::signed::{Execute, ReceivedMessages, Session};
use skep_jupyter::zmtp::Received;
use skep_jupyter::{Envelope, JsonText, Message, Question, Reply, Stream};
use tokio::time::{Instant, sleep_until};

use crate::kernel::{Event, Kernel};
use crate::kernel_process::KernelProcess;
use crate::kernel_stderr::PassedOver;
use crate::meter::Meter;
use crate::process::Command;
use output::Output;
use requests::{Asked, Purpose, Requests};
use runtime_directory::RuntimeDirectory;
use socket::Socket;

/// Time limit for the exit of a process after its sockets were closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Placeholder for the time in message headers: kernels hand it back and do not read it.
const DATE: &str = "1970-01-01T00:00:00+00:00";

/// The argument of a kernel's command that stands for the path of its connection file.
pub(crate) const CONNECTION_FILE: &str = "{connection_file}";

/// Prefix of the ids of our own requests.
const OWN: &str = "skep-";

/// Start parameters of a kernel that speaks Jupyter's protocol.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) command: Command,
    pub(crate) interrupt_mode: InterruptMode,
}

/// Interrupt mechanism that a kernel asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InterruptMode {
    /// SIGINT to the process.
    #[default]
    Signal,
    /// A request on the control socket.
    Message,
}

/// A kernel over ZeroMQ.
pub(crate) struct ZmqKernel {
    process: KernelProcess,
    session: Session,
    /// `None` when it was closed.
    shell: Option<Socket>,
    control: Option<Socket>,
    /// Carries what code asks its user; `None` if the kernel asks nothing.
    stdin: Option<Socket>,
    /// `None` when there is no more.
    output: Option<Output>,
    /// Name of the language, as the kernel gives it.
    language: String,
    encoder: Option<Encoder>,
    /// Requests that this kernel has no words for; the next execution is told.
    undone: Vec<&'static str>,
    /// Parser of the last message, which may hold several envelopes.
    said: Option<ReceivedMessages>,
    /// Messages that are in their order and not yet handed out.
    ready: VecDeque<Envelope>,
    requests: Requests,
    own_requests: u64,
    /// Time at which a process that closed its sockets is killed.
    give_up: Option<Instant>,
    _words: PassedOver,
    /// Holds the sockets and the connection file.
    _directory: RuntimeDirectory,
}

enum Step {
    Published(Option<Received>),
    Replied(io::Result<Received>),
    Controlled(io::Result<Received>),
    Asked(io::Result<Received>),
    Ended,
    NoReply,
    NoEnd,
}

impl ZmqKernel {
    async fn next(&mut self) -> Event {
        loop {
            if let Some(envelope) = self.ready.pop_front() {
                return Event::Message(envelope);
            }
            if let Some(envelope) = self.said.as_mut().and_then(Iterator::next) {
                self.hear(envelope);
                continue;
            }
            self.said = None;
            if let Some(exit) = self.process.ended
                && self.output.is_none()
                && self.requests.deadline().is_none()
            {
                return Event::Ended(self.process.explained(exit));
            }
            match self.step().await {
                Step::Published(Some(received)) => self.open(received),
                Step::Published(None) => {
                    self.output = None;
                    self.hurry();
                }
                Step::Replied(Ok(received)) => self.take_reply(&received),
                Step::Replied(Err(_closed)) => {
                    self.shell = None;
                    self.give_up();
                    self.hurry();
                }
                Step::Controlled(Ok(_)) => {}
                Step::Controlled(Err(_closed)) => self.control = None,
                Step::Asked(Ok(received)) => self.open(received),
                Step::Asked(Err(_closed)) => self.stdin = None,
                Step::NoReply => self.give_up(),
                Step::Ended => {
                    if let Some(output) = &self.output {
                        output.finish();
                    }
                }
                Step::NoEnd => self.end_it(),
            }
        }
    }

    /// Waits until something happens. Nothing is lost when this is dropped.
    async fn step(&mut self) -> Step {
        let no_reply = self.requests.deadline();
        let is_running = self.process.ended.is_none();
        // Output before replies, and both before the exit: nothing that was said is overtaken.
        tokio::select! {
            biased;
            said = published(self.output.as_ref()) => Step::Published(said),
            said = received(self.shell.as_mut()) => Step::Replied(said),
            said = received(self.control.as_mut()) => Step::Controlled(said),
            said = received(self.stdin.as_mut()) => Step::Asked(said),
            _ = self.process.end(), if is_running => Step::Ended,
            () = until(no_reply) => Step::NoReply,
            () = until(self.give_up), if is_running => Step::NoEnd,
        }
    }

    fn open(&mut self, received: Received) {
        match received {
            Received::Message(frames) => match self.session.read(&frames) {
                Ok(said) => self.said = Some(said),
                // Not the kernel's: user code can write to its sockets.
                Err(error) => tracing::debug!(%error, "output of a kernel is not read"),
            },
            Received::TooLarge { bytes } => self.ready.push_back(Envelope {
                parent: None,
                time: None,
                message: Message::TooLarge { bytes },
            }),
        }
    }

    /// Output in its order; the end waits for the reply, which comes on another socket.
    fn hear(&mut self, envelope: Envelope) {
        let rest = self.requests.published(envelope, Instant::now());
        self.ready.extend(rest);
        if self.shell.is_none() {
            self.give_up();
        }
        self.go_on();
    }

    /// A reply waits for the end of the output, which it would overtake otherwise.
    fn take_reply(&mut self, received: &Received) {
        let Received::Message(frames) = received else {
            return;
        };
        match self.session.read(frames) {
            Ok(replies) => {
                for reply in replies {
                    self.requests.replied(reply, Instant::now());
                }
                self.go_on();
            }
            Err(error) => {
                tracing::debug!(%error, "a kernel replied something that is no message");
            }
        }
    }

    /// Hands out the end of a request that is complete, and sends the next.
    fn go_on(&mut self) {
        let end = self.requests.end();
        self.hand_out(end);
    }

    /// The same for one whose end is not complete and never will be.
    fn give_up(&mut self) {
        let end = self.requests.give_up();
        self.hand_out(end);
    }

    fn hand_out(&mut self, end: Option<Vec<Envelope>>) {
        let end = end.unwrap_or_default();
        if end.iter().any(is_exiting) {
            // Some end by themselves then, and others wait to be told.
            let id = format!("{OWN}shutdown");
            let frames = self.session.plain(&id, DATE, "shutdown_request");
            self.send_frames(&frames);
        }
        self.ready.extend(end);
        if let Some(frames) = self.requests.next()
            && let Some(shell) = &mut self.shell
        {
            shell.send(frames);
        }
    }

    /// A kernel without its sockets is none, and has to end.
    fn hurry(&mut self) {
        self.give_up
            .get_or_insert_with(|| Instant::now() + EXIT_TIMEOUT);
    }

    /// It closed its sockets and lives on.
    fn end_it(&mut self) {
        self.process.kill();
        self.give_up = Some(Instant::now() + EXIT_TIMEOUT);
    }

    fn send_frames(&mut self, frames: &[bytes::Bytes]) {
        if let Some(shell) = &mut self.shell {
            shell.send(frames);
        }
    }

    /// Asks for the user's code, between what it needs and what it leaves.
    fn execute(
        &mut self,
        id: &str,
        code: &str,
        variables: &BTreeMap<String, String>,
        allows_input: bool,
    ) {
        let encoder = self.encoder.filter(|_| !variables.is_empty());
        if let Some(encoder) = encoder {
            self.run_silently(&encoder.set_variables(variables), Purpose::Before);
        } else if !variables.is_empty() {
            self.undone.push("env_vars are not set");
        }
        for undone in self.undone.drain(..) {
            self.ready.push_back(told(id, undone, &self.language));
        }
        let request = Execute {
            code,
            silent: false,
            allows_input: allows_input && self.stdin.is_some(),
        };
        let frames = self.session.execute(id, DATE, &request);
        self.requests
            .push(Asked::new(id.to_owned(), frames, Purpose::Cell));
        if let Some(encoder) = encoder {
            self.run_silently(&encoder.restore_variables(), Purpose::Must);
        }
    }

    /// Runs a piece of code that leaves no trace.
    fn run_silently(&mut self, code: &str, purpose: Purpose) {
        self.own_requests += 1;
        let id = format!("{OWN}{}", self.own_requests);
        let request = Execute {
            code,
            silent: true,
            allows_input: false,
        };
        let frames = self.session.execute(&id, DATE, &request);
        self.requests.push(Asked::new(id, frames, purpose));
    }
}

/// Returns the note to the caller about a request that cannot be put to a kernel of this language.
fn told(id: &str, undone: &str, language: &str) -> Envelope {
    let text = format!("[{undone}: nobody knows how to tell that to a kernel for '{language}']\n");
    Envelope {
        parent: Some(id.to_owned()),
        time: None,
        message: Message::Text {
            stream: Stream::Stderr,
            text: JsonText::string(&text),
        },
    }
}

/// Returns true if the code asked its kernel to exit.
fn is_exiting(envelope: &Envelope) -> bool {
    matches!(
        envelope.message,
        Message::Reply(Reply::Done { exiting: true } | Reply::Failed { exiting: true, .. })
    )
}

async fn published(output: Option<&Output>) -> Option<Received> {
    match output {
        Some(output) => output.next().await,
        None => std::future::pending().await,
    }
}

async fn received(socket: Option<&mut Socket>) -> io::Result<Received> {
    match socket {
        Some(socket) => socket.receive().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Kernel for ZmqKernel {
    fn send(&mut self, request: &Request<'_>) {
        match (request, self.encoder) {
            (
                Request::Execute {
                    id,
                    code,
                    env,
                    allow_stdin,
                },
                _,
            ) => {
                self.process.forget_kills();
                self.execute(id, code, env, *allow_stdin);
            }
            (Request::InputReply { parent, value }, _) => {
                let frames = self.session.input_reply(parent, DATE, *value);
                if let Some(stdin) = &mut self.stdin {
                    stdin.send(&frames);
                }
            }
            (Request::Environment { variables, .. }, Some(encoder)) => {
                self.run_silently(&encoder.keep_variables(variables), Purpose::Must);
            }
            (Request::Chdir { path, .. }, Some(encoder)) => {
                self.run_silently(&encoder.change_directory(path), Purpose::May);
            }
            (Request::Shutdown { .. }, _) => {
                let id = format!("{OWN}shutdown");
                let frames = self.session.plain(&id, DATE, "shutdown_request");
                self.send_frames(&frames);
            }
            // They come by `ask`, in Jupyter's own words.
            (
                Request::Complete { .. }
                | Request::Inspect { .. }
                | Request::IsComplete { .. }
                | Request::Info { .. },
                _,
            ) => {}
            // It forks no copies, which is said by `fork`.
            (Request::Fork { .. } | Request::Continue { .. }, _) => {}
            (Request::Environment { .. }, None) => {
                self.undone
                    .push("changed variables of the sandbox are not set");
            }
            (Request::Chdir { .. }, None) => {
                self.undone
                    .push("the directory of the context is not entered");
            }
        }
        self.go_on();
    }

    fn ask(&mut self, id: &str, question: &Question) {
        let frames = self.session.ask(id, DATE, question);
        self.requests
            .push(Asked::new(id.to_owned(), frames, Purpose::Question));
        self.go_on();
    }

    fn receive(&mut self) -> BoxFuture<'_, Event> {
        self.next().boxed()
    }

    fn interrupt(&mut self) -> io::Result<()> {
        if let Some(output) = &self.output {
            output.release();
        }
        match &mut self.control {
            Some(control) => {
                let id = format!("{OWN}interrupt");
                control.send(&self.session.plain(&id, DATE, "interrupt_request"));
                Ok(())
            }
            None => self.process.signal(Signal::INT),
        }
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn keep(&mut self) -> io::Result<()> {
        self.process.keep()
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.process.meter)
    }
}
