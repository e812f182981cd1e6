//! Start of a kernel, from the command to its first answer.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::encoder::{Encoder, preparation};
use skep_jupyter::signed::{Connection, KernelInfo, Session};
use skep_jupyter::zmtp::{Received, Role};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::output::Output;
use super::requests::{Purpose, Requests};
use super::runtime_directory::RuntimeDirectory;
use super::socket::Socket;
use super::{CONNECTION_FILE, DATE, Foreign, InterruptMode, ZmqKernel};
use crate::kernel::{Exit, StartError};
use crate::kernel_process::KernelProcess;
use crate::kernel_stderr::KernelStderr;
use crate::process::{Command, Processes};

/// Time limit from the start of a kernel to its first answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval at which a starting kernel is asked for its info. Its output socket tells nothing to
/// those who come too late, so the question is repeated until the answer is seen on both sockets.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The id of the question.
pub(super) const HELLO: &str = "skep-hello";

impl ZmqKernel {
    /// Starts a process with a connection file, and waits until it answers.
    pub(crate) async fn start(
        processes: Arc<dyn Processes>,
        foreign: Foreign,
    ) -> Result<Self, StartError> {
        let key = uuid::Uuid::new_v4().to_string();
        let directory = RuntimeDirectory::new(&processes).map_err(StartError::Process)?;
        let connection = Connection::at(&directory.sockets(), &key);
        let file = directory
            .write_connection(&connection)
            .map_err(StartError::Process)?;
        let (kernel_stderr, errors) = KernelStderr::new().map_err(StartError::Process)?;
        let nowhere = || processes.null_device().map_err(StartError::Process);
        let standard = [nowhere()?, nowhere()?, errors];
        // Read before the start: a kill that is counted from here on can explain the end of the
        // kernel.
        let kills = processes.out_of_memory_kills();
        let is_spare = foreign.command.is_spare;
        let started = processes
            .start(with_file(foreign.command, &file), standard)
            .await
            .map_err(StartError::Process)?;
        let mut handshake = Handshake {
            process: KernelProcess::new(processes, started, kills),
            session: Session::new(key.clone(), key),
            interrupt_mode: foreign.interrupt_mode,
        };
        if is_spare {
            handshake.process.mark().map_err(StartError::Process)?;
        }
        let shaken = timeout(START_TIMEOUT, handshake.reach(&connection)).await;
        let reached = match shaken {
            Ok(Ok(reached)) => reached,
            Ok(Err(exit)) => {
                return Err(StartError::Ended {
                    exit,
                    kernel_stderr: kernel_stderr.read(),
                });
            }
            Err(_elapsed) => {
                return Err(StartError::Silent {
                    seconds: START_TIMEOUT.as_secs(),
                });
            }
        };
        let mut kernel = Self {
            process: handshake.process,
            session: handshake.session,
            shell: Some(reached.shell),
            control: reached.control,
            stdin: reached.stdin,
            output: Some(reached.output),
            encoder: Encoder::of(&reached.info.language_info.name),
            language: reached.info.language_info.name,
            undone: Vec::new(),
            said: None,
            ready: VecDeque::new(),
            requests: Requests::default(),
            own_requests: 0,
            give_up: None,
            _words: kernel_stderr.pass_over().map_err(StartError::Process)?,
            _directory: directory,
        };
        if let Some(preparation) = preparation(&reached.info.implementation) {
            kernel.run_silently(&preparation, Purpose::Must);
            kernel.go_on();
        }
        Ok(kernel)
    }
}

/// The command with the path of the connection file in its place.
fn with_file(command: Command, file: &str) -> Command {
    let arguments = command
        .arguments
        .iter()
        .map(|argument| argument.replace(CONNECTION_FILE, file))
        .collect();
    Command {
        arguments,
        ..command
    }
}

/// A process that may become a kernel.
struct Handshake {
    process: KernelProcess,
    session: Session,
    interrupt_mode: InterruptMode,
}

/// A kernel that answers, and its connections.
struct Reached {
    shell: Socket,
    control: Option<Socket>,
    stdin: Option<Socket>,
    output: Output,
    info: KernelInfo,
}

impl Handshake {
    async fn reach(&mut self, connection: &Connection) -> Result<Reached, Exit> {
        // Output first: what is published to nobody is lost.
        let iopub = self
            .connect(connection, connection.iopub_port, Role::Subscriber)
            .await?;
        let mut shell = self
            .connect(connection, connection.shell_port, Role::Dealer)
            .await?;
        let control = match self.interrupt_mode {
            InterruptMode::Signal => None,
            InterruptMode::Message => {
                let port = connection.control_port;
                Some(self.connect(connection, port, Role::Dealer).await?)
            }
        };
        let processes = Arc::clone(&self.process.processes);
        let output = Output::collect(iopub, processes, self.process.pid);
        let info = self.greet(&mut shell, &output).await?;
        // It has opened all its sockets by now; one that has none for questions asks none.
        let path = PathBuf::from(connection.path(connection.stdin_port));
        let stdin = Socket::connect(&path, Role::Dealer, self.session.identity()).await;
        Ok(Reached {
            shell,
            control,
            stdin: stdin.ok(),
            output,
            info,
        })
    }

    /// Connects as soon as the kernel listens.
    async fn connect(
        &mut self,
        connection: &Connection,
        port: u16,
        role: Role,
    ) -> Result<Socket, Exit> {
        let path = PathBuf::from(connection.path(port));
        let identity = match role {
            Role::Dealer => self.session.identity().to_owned(),
            Role::Subscriber => String::new(),
        };
        loop {
            if let Ok(socket) = Socket::connect(&path, role, &identity).await {
                return Ok(socket);
            }
            tokio::select! {
                exit = self.process.end() => return Err(exit),
                // There is no event for a path that appears, except a watch on its directory.
                () = sleep(Duration::from_millis(20)) => {}
            }
        }
    }

    /// Asks until an answer was seen on both sockets: then no output is lost any more.
    async fn greet(&mut self, shell: &mut Socket, output: &Output) -> Result<KernelInfo, Exit> {
        let (mut info, mut heard) = (None, false);
        let question = self.session.plain(HELLO, DATE, "kernel_info_request");
        loop {
            shell.send(&question);
            let again = Instant::now() + ASK_AGAIN;
            let mut is_time = false;
            while !is_time {
                tokio::select! {
                    received = shell.receive() => match received {
                        Ok(received) => info = self.info(&received).or(info),
                        Err(_closed) => return Err(self.killed().await),
                    },
                    received = output.next() => match received {
                        Some(received) => heard |= self.is_answer(&received),
                        None => return Err(self.killed().await),
                    },
                    exit = self.process.end() => return Err(exit),
                    () = sleep_until(again) => is_time = true,
                }
                if heard && let Some(info) = info.take_if(|_| heard) {
                    return Ok(info);
                }
            }
        }
    }

    fn info(&self, received: &Received) -> Option<KernelInfo> {
        match received {
            Received::Message(frames) => self.session.kernel_info(frames).ok().flatten(),
            Received::TooLarge { .. } => None,
        }
    }

    fn is_answer(&self, received: &Received) -> bool {
        let Received::Message(frames) = received else {
            return false;
        };
        let said = self.session.read(frames);
        said.is_ok_and(|mut said| {
            said.next()
                .is_some_and(|said| said.parent.as_deref() == Some(HELLO))
        })
    }

    /// It closed a socket, or does not speak ZMTP: it is ending, or is no kernel.
    async fn killed(&mut self) -> Exit {
        const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
        if let Ok(exit) = timeout(EXIT_TIMEOUT, self.process.end()).await {
            return exit;
        }
        self.process.kill();
        self.process.end().await
    }
}
