//! A kernel of somebody else's: Jupyter's messages over ZeroMQ, on Unix sockets.
//!
//! Such a kernel publishes its output and drops what is not taken in time, so one task always
//! reads (`zmq_kernel/output.rs`). What its owner has not taken yet waits in memory, and when
//! that is too much the kernel's processes are stopped until the owner has caught up.

mod folder;
mod output;
mod process;
mod socket;
mod start;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::Signal;
use skep_jupyter::frame::Request;
use skep_jupyter::signed::{Execute, KernelInfo, Said, Session};
use skep_jupyter::zmtp::Received;
use skep_jupyter::{Envelope, Message, Reply, python};
use tokio::time::{Instant, sleep_until};

use crate::kernel::{Event, Exit, Kernel};
use crate::last_words::PassedOver;
use crate::meter::Meter;
use crate::process::Command;
use folder::Folder;
use output::Output;
use process::Process;
use socket::Socket;

/// How long the answer to a request may come after the end of its output, and the end of a
/// process after the end of its sockets.
const PATIENCE: Duration = Duration::from_secs(2);

/// What we put in the place of a time: kernels hand it back and do not read it.
const DATE: &str = "1970-01-01T00:00:00+00:00";

/// The argument of a kernel's command that stands for the path of its connection file.
pub(crate) const CONNECTION_FILE: &str = "{connection_file}";

/// How the ids of our own requests begin.
const OWN: &str = "skep-";

/// What is to be started, and what has to be known about it before.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) command: Command,
    pub(crate) interrupt_mode: InterruptMode,
}

/// How a kernel wants to be interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InterruptMode {
    /// By SIGINT.
    #[default]
    Signal,
    /// By a request on the control socket.
    Message,
}

/// What can be said to a kernel beside the user's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Other,
}

impl Language {
    fn of(info: &KernelInfo) -> Self {
        match info.language_info.name.as_str() {
            "python" => Self::Python,
            _ => Self::Other,
        }
    }
}

/// A kernel over ZeroMQ.
pub(crate) struct ZmqKernel {
    process: Process,
    session: Session,
    /// `None` when it was closed.
    shell: Option<Socket>,
    control: Option<Socket>,
    /// `None` when there is no more.
    output: Option<Output>,
    language: Language,
    out_of_memory_kills: Option<u64>,
    /// What is being read of the last message.
    said: Option<Said>,
    /// Messages that are in their order and not yet handed out.
    ready: VecDeque<Envelope>,
    /// The end of an execution whose reply has not come yet, and how long it may take.
    idle: Option<(Envelope, Instant)>,
    /// The reply to an execution whose output has not ended yet.
    reply: Option<Envelope>,
    /// When a process that closed its sockets has to have ended.
    give_up: Option<Instant>,
    requests: u64,
    _words: PassedOver,
    /// Holds the sockets and the connection file.
    _folder: Folder,
}

enum Step {
    Published(Option<Received>),
    Replied(io::Result<Received>),
    Controlled(io::Result<Received>),
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
                && self.idle.is_none()
            {
                return Event::Ended(self.explained(exit));
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
                    self.finish();
                    self.hurry();
                }
                Step::Controlled(Ok(_)) => {}
                Step::Controlled(Err(_closed)) => self.control = None,
                Step::NoReply => self.finish(),
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
        let no_reply = self.idle.as_ref().map(|(_, until)| *until);
        let is_running = self.process.ended.is_none();
        tokio::select! {
            biased;
            said = published(self.output.as_ref()) => Step::Published(said),
            said = received(self.shell.as_mut()) => Step::Replied(said),
            said = received(self.control.as_mut()) => Step::Controlled(said),
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
        if envelope.message != Message::Idle || is_own(&envelope) {
            self.ready.push_back(envelope);
            return;
        }
        let is_replied = self.shell.is_none()
            || matches!(&self.reply, Some(reply) if reply.parent == envelope.parent);
        self.idle = Some((envelope, Instant::now() + PATIENCE));
        if is_replied {
            self.finish();
        }
    }

    /// A reply waits for the end of the output, which it would overtake otherwise.
    fn take_reply(&mut self, received: &Received) {
        let Received::Message(frames) = received else {
            return;
        };
        let replies = match self.session.read(frames) {
            Ok(replies) => replies,
            Err(error) => {
                tracing::debug!(%error, "a kernel replied something that is no message");
                return;
            }
        };
        for reply in replies.filter(|reply| !is_own(reply)) {
            let is_idle = matches!(&self.idle, Some((idle, _)) if idle.parent == reply.parent);
            // An aborted request has no output, and some kernels do not say its end.
            let is_aborted = reply.message == Message::Reply(Reply::Aborted);
            if is_aborted && !is_idle {
                let idle = Envelope {
                    message: Message::Idle,
                    ..reply.clone()
                };
                self.idle = Some((idle, Instant::now()));
            }
            self.reply = Some(reply);
            if is_idle || is_aborted {
                self.finish();
            }
        }
    }

    /// Hands out the end of an execution, after its reply if that has come.
    fn finish(&mut self) {
        if let Some((idle, _)) = self.idle.take() {
            let reply = self.reply.take();
            let reply = reply.filter(|reply| reply.parent == idle.parent);
            self.ready.extend(reply);
            self.ready.push_back(idle);
        }
    }

    /// A kernel without its sockets is none, and has to end.
    fn hurry(&mut self) {
        self.give_up
            .get_or_insert_with(|| Instant::now() + PATIENCE);
    }

    /// It closed its sockets and lives on.
    fn end_it(&mut self) {
        self.process.kill();
        self.give_up = Some(Instant::now() + PATIENCE);
    }

    fn explained(&self, exit: Exit) -> Exit {
        const SIGKILL: i32 = 9;
        let kills = self.process.processes.out_of_memory_kills();
        if exit == Exit::Signal(SIGKILL) && kills > self.out_of_memory_kills {
            Exit::OutOfMemory
        } else {
            exit
        }
    }

    fn ask(&mut self, frames: &[bytes::Bytes]) {
        if let Some(shell) = &mut self.shell {
            shell.send(frames);
        }
    }

    fn execute(&mut self, id: &str, code: &str, silent: bool) {
        let request = Execute { code, silent };
        let frames = self.session.execute(id, DATE, &request);
        self.ask(&frames);
    }

    /// Runs a piece of code that leaves no trace.
    fn run_silently(&mut self, code: &str) {
        self.requests += 1;
        let id = format!("{OWN}{}", self.requests);
        self.execute(&id, code, true);
    }
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

fn is_own(envelope: &Envelope) -> bool {
    let parent = envelope.parent.as_deref();
    parent.is_none_or(|parent| parent.starts_with(OWN))
}

impl Kernel for ZmqKernel {
    fn send(&mut self, request: &Request<'_>) {
        match (request, self.language) {
            (Request::Execute { id, code, env }, language) => {
                self.out_of_memory_kills = self.process.processes.out_of_memory_kills();
                let has_variables = language == Language::Python && !env.is_empty();
                if has_variables {
                    self.run_silently(&python::set_variables(env));
                }
                self.execute(id, code, false);
                if has_variables {
                    self.run_silently(&python::restore_variables());
                    // An interrupt that comes late may have ended the first one half-way.
                    self.run_silently(&python::restore_variables());
                }
            }
            (Request::Environment { variables, .. }, Language::Python) => {
                self.run_silently(&python::keep_variables(variables));
            }
            (Request::Chdir { path, .. }, Language::Python) => {
                self.run_silently(&python::change_directory(path));
            }
            (Request::Shutdown { .. }, _) => {
                let id = format!("{OWN}shutdown");
                let frames = self.session.plain(&id, DATE, "shutdown_request");
                self.ask(&frames);
            }
            (Request::Environment { .. } | Request::Chdir { .. }, Language::Other) => {
                tracing::debug!("nobody knows how to say this in the language of the kernel");
            }
        }
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

    fn meter(&self) -> Arc<dyn Meter> {
        self.process.processes.meter(self.process.pid)
    }
}
