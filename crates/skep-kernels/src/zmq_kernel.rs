//! A kernel of somebody else's: Jupyter's messages over ZeroMQ, on Unix sockets.
//!
//! Such a kernel publishes its output and drops what is not taken in time, so one task always
//! reads (`zmq_kernel/output.rs`). What its owner has not taken yet waits in memory, and when
//! that is too much the kernel's processes are stopped until the owner has caught up.

mod output;
mod socket;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::Signal;
use skep_jupyter::frame::Request;
use skep_jupyter::signed::{Connection, Execute, Session};
use skep_jupyter::zmtp::Role;
use skep_jupyter::{Envelope, Message, Reply, python};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::kernel::{Event, Exit, Kernel, StartError};
use crate::last_words::{LastWords, open_nowhere};
use crate::meter::Meter;
use crate::process::{Command, Processes};
use output::Output;
use socket::Socket;

/// How long a kernel may take from its start to its first answer.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How often a kernel is asked whether it is there. Its output socket tells nothing to those
/// who come too late, so the question is repeated until the answer is seen on both sockets.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long the answer to a request may come after the end of its output.
const REPLY_PATIENCE: Duration = Duration::from_secs(2);

/// What we put in the place of a time: kernels hand it back and do not read it.
const DATE: &str = "1970-01-01T00:00:00+00:00";

/// The argument of a kernel's command that stands for the path of its connection file.
pub(crate) const CONNECTION_FILE: &str = "{connection_file}";

/// A kernel over ZeroMQ.
pub(crate) struct ZmqKernel {
    processes: Arc<dyn Processes>,
    pid: u32,
    exit: oneshot::Receiver<Exit>,
    ended: Option<Exit>,
    session: Arc<Session>,
    shell: Socket,
    output: Output,
    is_python: bool,
    out_of_memory_kills: Option<u64>,
    /// Messages that were received and not yet handed out.
    ready: VecDeque<Envelope>,
    /// The end of an execution whose reply has not come yet, and how long it may take.
    idle: Option<(Envelope, Instant)>,
    /// The last execution that was replied to.
    replied: Option<String>,
    requests: u64,
    /// Holds the sockets and the connection file.
    _folder: Folder,
}

impl ZmqKernel {
    /// Starts a process with a connection file, and waits until it answers.
    pub(crate) async fn start(
        processes: Arc<dyn Processes>,
        command: Command,
        language: &str,
    ) -> Result<Self, StartError> {
        let key = uuid::Uuid::new_v4().to_string();
        let folder = Folder::new(&*processes).map_err(StartError::Process)?;
        let connection = Connection::at(&folder.socket(), &key);
        let file = folder
            .write_connection(&*processes, &connection)
            .map_err(StartError::Process)?;
        let arguments = command.arguments.iter();
        let arguments = arguments.map(|argument| argument.replace(CONNECTION_FILE, &file));
        let command = Command {
            arguments: arguments.collect(),
            ..command
        };
        let out_of_memory_kills = processes.out_of_memory_kills();
        let (last_words, errors) = LastWords::new().map_err(StartError::Process)?;
        let nowhere = || open_nowhere().map_err(StartError::Process);
        let standard = [nowhere()?, nowhere()?, errors];
        let started = processes.start(command, standard).await;
        let mut started = started.map_err(StartError::Process)?;
        // From here on the process must not be left behind, whatever happens.
        let guard = Guard {
            processes: Arc::clone(&processes),
            pid: started.pid,
            armed: true,
        };
        let session = Arc::new(Session::new(key.clone(), key));
        let connect = connect(&connection, &mut started.exit);
        let connected = timeout(START_PATIENCE, connect).await;
        let (shell, published) = match connected {
            Ok(Ok(sockets)) => sockets,
            Ok(Err(exit)) => return Err(ended(exit, last_words)),
            Err(_elapsed) => return Err(silent()),
        };
        let output = Output::collect(
            published,
            Arc::clone(&session),
            Arc::clone(&processes),
            started.pid,
        );
        let mut kernel = Self {
            processes,
            pid: started.pid,
            exit: started.exit,
            ended: None,
            session,
            shell,
            output,
            is_python: language == "python",
            out_of_memory_kills,
            ready: VecDeque::new(),
            idle: None,
            replied: None,
            requests: 0,
            _folder: folder,
        };
        guard.disarm();
        match timeout(START_PATIENCE, kernel.greet()).await {
            Ok(Ok(())) => Ok(kernel),
            Ok(Err(exit)) => Err(ended(exit, last_words)),
            Err(_elapsed) => Err(silent()),
        }
    }

    /// Asks until an answer was seen on both sockets: then no output is lost any more.
    async fn greet(&mut self) -> Result<(), Exit> {
        let (mut answered, mut heard) = (false, false);
        while !(answered && heard) {
            let request = self.session.plain("hello", DATE, "kernel_info_request");
            self.shell.send(&request);
            let deadline = Instant::now() + ASK_AGAIN;
            while !(answered && heard) && Instant::now() < deadline {
                tokio::select! {
                    frames = self.shell.receive() => match frames {
                        Ok(_) => answered = true,
                        Err(_) => return Err(self.await_exit().await),
                    },
                    said = self.output.next() => match said {
                        Some(said) => heard |= said.parent.as_deref() == Some("hello"),
                        None => return Err(self.await_exit().await),
                    },
                    exit = &mut self.exit => {
                        let exit = exit.unwrap_or(Exit::Unknown);
                        self.ended = Some(exit);
                        return Err(exit);
                    }
                    () = sleep(ASK_AGAIN) => {}
                }
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some(envelope) = self.ready.pop_front() {
                return Event::Message(envelope);
            }
            if let Some(exit) = self.ended {
                return Event::Ended(self.explained(exit));
            }
            let patience = self.idle.as_ref().map(|(_, until)| *until);
            tokio::select! {
                biased;
                said = self.output.next() => match said {
                    Some(envelope) => self.hear(envelope),
                    None => self.ended = Some(self.await_exit().await),
                },
                frames = self.shell.receive() => match frames {
                    Ok(frames) => self.take_reply(&frames),
                    Err(_closed) => self.ended = Some(self.await_exit().await),
                },
                () = until(patience) => self.finish(),
                exit = &mut self.exit => {
                    self.ended = Some(exit.unwrap_or(Exit::Unknown));
                    self.collect_rest().await;
                }
            }
        }
    }

    /// Output in its order; the end waits for the reply, which comes on another socket.
    fn hear(&mut self, envelope: Envelope) {
        if envelope.message != Message::Idle || is_own(&envelope) {
            self.ready.push_back(envelope);
            return;
        }
        let is_replied = self.replied.is_some() && self.replied == envelope.parent;
        self.idle = Some((envelope, Instant::now() + REPLY_PATIENCE));
        if is_replied {
            self.finish();
        }
    }

    fn take_reply(&mut self, frames: &[bytes::Bytes]) {
        let replies = match self.session.read(frames) {
            Ok(replies) => replies,
            Err(error) => {
                tracing::debug!(%error, "a kernel replied something that is no message");
                return;
            }
        };
        for reply in replies {
            if is_own(&reply) {
                continue;
            }
            self.replied = reply.parent.clone();
            let aborted = reply.message == Message::Reply(Reply::Aborted);
            let end = Envelope {
                message: Message::Idle,
                ..reply.clone()
            };
            self.ready.push_back(reply);
            match &self.idle {
                Some(_) => self.finish(),
                // An aborted request never becomes idle.
                None if aborted => self.ready.push_back(end),
                None => {}
            }
        }
    }

    fn finish(&mut self) {
        if let Some((envelope, _)) = self.idle.take() {
            self.ready.push_back(envelope);
        }
    }

    /// What was published before the end of the process and is still on its way.
    async fn collect_rest(&mut self) {
        let rest = async {
            while let Some(envelope) = self.output.next().await {
                self.ready.push_back(envelope);
            }
        };
        drop(timeout(Duration::from_millis(200), rest).await);
    }

    async fn await_exit(&mut self) -> Exit {
        for _ in 0..2 {
            if let Ok(exit) = timeout(REPLY_PATIENCE, &mut self.exit).await {
                return exit.unwrap_or(Exit::Unknown);
            }
            self.kill();
        }
        Exit::Unknown
    }

    fn explained(&self, exit: Exit) -> Exit {
        const SIGKILL: i32 = 9;
        let kills = self.processes.out_of_memory_kills();
        if exit == Exit::Signal(SIGKILL) && kills > self.out_of_memory_kills {
            Exit::OutOfMemory
        } else {
            exit
        }
    }

    /// Runs a piece of code that leaves no trace.
    fn run_silently(&mut self, code: &str) {
        self.requests += 1;
        let id = format!("{OWN}{}", self.requests);
        let silent = Execute { code, silent: true };
        self.shell.send(&self.session.execute(&id, DATE, &silent));
    }
}

/// How the ids of our own requests begin.
const OWN: &str = "skep-";

fn is_own(envelope: &Envelope) -> bool {
    let parent = envelope.parent.as_deref();
    parent.is_none_or(|parent| parent.starts_with(OWN) || parent == "hello")
}

impl Kernel for ZmqKernel {
    fn send(&mut self, request: &Request<'_>) {
        match request {
            Request::Execute { id, code, env } => {
                self.out_of_memory_kills = self.processes.out_of_memory_kills();
                let has_variables = self.is_python && !env.is_empty();
                if has_variables {
                    self.run_silently(&python::set_variables(env));
                }
                let execute = Execute {
                    code,
                    silent: false,
                };
                self.shell.send(&self.session.execute(id, DATE, &execute));
                if has_variables {
                    self.run_silently(python::restore_variables());
                }
            }
            Request::Environment { variables, .. } if self.is_python => {
                self.run_silently(&python::keep_variables(variables));
            }
            Request::Chdir { path, .. } if self.is_python => {
                self.run_silently(&python::change_directory(path));
            }
            Request::Shutdown { .. } => {
                let request = self
                    .session
                    .plain("skep-shutdown", DATE, "shutdown_request");
                self.shell.send(&request);
            }
            Request::Environment { .. } | Request::Chdir { .. } => {
                tracing::debug!("nobody knows how to say this in the language of the kernel");
            }
        }
    }

    fn receive(&mut self) -> BoxFuture<'_, Event> {
        self.next().boxed()
    }

    fn interrupt(&mut self) -> io::Result<()> {
        self.output.release();
        self.processes.signal(self.pid, Signal::INT)
    }

    fn kill(&mut self) {
        if let Err(error) = self.processes.signal(self.pid, Signal::KILL) {
            tracing::debug!(%error, "kernel has ended already");
        }
    }

    fn meter(&self) -> Arc<dyn Meter> {
        self.processes.meter(self.pid)
    }
}

impl Drop for ZmqKernel {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}

/// Kills a process that did not become a kernel.
struct Guard {
    processes: Arc<dyn Processes>,
    pid: u32,
    armed: bool,
}

impl Guard {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed
            && let Err(error) = self.processes.signal(self.pid, Signal::KILL)
        {
            tracing::debug!(%error, "kernel has ended already");
        }
    }
}

/// A folder of the sandbox's user, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(processes: &dyn Processes) -> io::Result<Self> {
        processes.make_folder().map(Self)
    }

    fn socket(&self) -> String {
        self.0.join("k").to_string_lossy().into_owned()
    }

    fn write_connection(
        &self,
        processes: &dyn Processes,
        connection: &Connection,
    ) -> io::Result<String> {
        let path = self.0.join("connection.json");
        let text = serde_json::to_vec(connection).map_err(io::Error::other)?;
        processes.write_file(&path, &text)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "folder of a kernel is left");
        }
    }
}

/// Connects to both sockets as soon as the kernel listens.
async fn connect(
    connection: &Connection,
    exit: &mut oneshot::Receiver<Exit>,
) -> Result<(Socket, Socket), Exit> {
    let shell = PathBuf::from(connection.path(connection.shell_port));
    let output = PathBuf::from(connection.path(connection.iopub_port));
    loop {
        // Output first: what is published to nobody is lost.
        if let Ok(output) = Socket::connect(&output, Role::Subscriber).await
            && let Ok(shell) = Socket::connect(&shell, Role::Dealer).await
        {
            return Ok((shell, output));
        }
        tokio::select! {
            exit = &mut *exit => return Err(exit.unwrap_or(Exit::Unknown)),
            // There is no event for a path that appears, except a watch on its folder.
            () = sleep(Duration::from_millis(20)) => {}
        }
    }
}

fn ended(exit: Exit, last_words: LastWords) -> StartError {
    StartError::Ended {
        exit,
        last_words: last_words.read(),
    }
}

fn silent() -> StartError {
    StartError::Silent {
        seconds: START_PATIENCE.as_secs(),
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
