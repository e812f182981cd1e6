//! A kernel of ours: a process, and length-prefixed JSON over one Unix socket.

mod copy;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Signal;
use skep_jupyter::frame::{PROTOCOL, Request, parse};
use skep_jupyter::{Envelope, Message};
use skep_telemetry::Chain;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::frame_buffer::{Frame, FrameBuffer, framed};
use crate::kernel::{Event, Exit, ForkError, Kernel, StartError};
use crate::kernel_process::KernelProcess;
use crate::kernel_stderr::KernelStderr;
use crate::meter::Meter;
use crate::process::{Command, Processes};

/// Time limit from the start of a kernel to its hello. On a busy host the import of IPython
/// alone has taken several seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for the exit of a process after its socket was closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A kernel over a socket.
pub(crate) struct SocketKernel {
    process: KernelProcess,
    stream: UnixStream,
    /// The other end of the socket is closed.
    hung_up: bool,
    incoming: FrameBuffer,
    outgoing: BytesMut,
    /// A descriptor that goes with the next bytes.
    attachment: Option<OwnedFd>,
    heap_limit: Option<u64>,
    /// True if it forks copies of itself.
    forks: bool,
    /// Number of copies that it was asked for.
    copies: u64,
}

impl SocketKernel {
    /// Starts a process whose standard input is the socket, and waits for its hello.
    pub(crate) async fn start(
        processes: Arc<dyn Processes>,
        command: Command,
    ) -> Result<Self, StartError> {
        let (ends, theirs) = Ends::new(&*processes).map_err(StartError::Process)?;
        // Read before the start: a kill that is counted from here on can explain the end of the
        // kernel.
        let kills = processes.out_of_memory_kills();
        let is_spare = command.is_spare;
        let started = processes
            .start(command, theirs)
            .await
            .map_err(StartError::Process)?;
        let process = KernelProcess::new(processes, started, kills);
        let mut kernel = Self::new(process, ends.stream);
        if is_spare {
            kernel.process.mark().map_err(StartError::Process)?;
        }
        kernel.hear_hello(ends.kernel_stderr).await?;
        Ok(kernel)
    }

    /// Has such a process forked; `None` if there is none to be had. The socket that was made
    /// for it is gone then.
    pub(crate) async fn fork(
        processes: Arc<dyn Processes>,
        command: Command,
    ) -> Result<Option<Self>, StartError> {
        let (ends, theirs) = Ends::new(&*processes).map_err(StartError::Process)?;
        let kills = processes.out_of_memory_kills();
        let is_spare = command.is_spare;
        let started = match processes.fork(command, theirs).await {
            Ok(Some(started)) => started,
            Ok(None) => return Ok(None),
            // Everyday life: the sandbox has installed a package, or the zygote is not warm yet.
            Err(error) => {
                tracing::info!(error = %Chain(&error), "kernel not forked, starting a process instead");
                return Ok(None);
            }
        };
        let process = KernelProcess::new(processes, started, kills);
        let mut kernel = Self::new(process, ends.stream);
        kernel.hear_hello(ends.kernel_stderr).await?;
        if is_spare {
            // Not before: nobody in the sandbox can change a fork until it serves.
            kernel.process.mark().map_err(StartError::Process)?;
        }
        Ok(Some(kernel))
    }

    fn new(process: KernelProcess, stream: UnixStream) -> Self {
        Self {
            process,
            stream,
            hung_up: false,
            incoming: FrameBuffer::default(),
            outgoing: BytesMut::new(),
            attachment: None,
            heap_limit: None,
            forks: false,
            copies: 0,
        }
    }

    async fn hear_hello(&mut self, kernel_stderr: KernelStderr) -> Result<(), StartError> {
        match timeout(START_TIMEOUT, self.next()).await {
            Ok(Event::Message(Envelope {
                message:
                    Message::Hello {
                        protocol: PROTOCOL,
                        heap_limit,
                        forks,
                    },
                ..
            })) => {
                self.heap_limit = heap_limit;
                self.forks = forks;
                Ok(())
            }
            Ok(Event::Message(Envelope {
                message: Message::Hello { protocol, .. },
                ..
            })) => Err(StartError::Version {
                found: protocol,
                expected: PROTOCOL,
            }),
            Ok(Event::Message(_)) => Err(StartError::Ended {
                exit: Exit::Confused,
                kernel_stderr: kernel_stderr.read(),
            }),
            Ok(Event::Ended(exit)) => Err(StartError::Ended {
                exit,
                kernel_stderr: kernel_stderr.read(),
            }),
            Err(_elapsed) => Err(StartError::Silent {
                seconds: START_TIMEOUT.as_secs(),
            }),
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            match self.incoming.next() {
                Some(Frame::Whole(frame)) => match parse(&frame) {
                    Ok(envelope) => return Event::Message(envelope),
                    Err(error) => {
                        tracing::debug!(%error, "killing a kernel that does not speak the protocol");
                        self.kill();
                        self.process.ended = Some(Exit::Confused);
                        return Event::Ended(Exit::Confused);
                    }
                },
                Some(Frame::TooLarge(bytes)) => {
                    return Event::Message(Envelope {
                        parent: None,
                        time: None,
                        message: Message::TooLarge { bytes },
                    });
                }
                None => {}
            }
            if self.hung_up {
                return Event::Ended(self.exit().await);
            }
            if self.process.ended.is_some() {
                self.read_rest();
                continue;
            }
            let interest = if self.outgoing.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            // Output first: the exit must not overtake what was said before it.
            tokio::select! {
                biased;
                ready = self.stream.ready(interest) => match ready {
                    Ok(_) => self.exchange(),
                    Err(_) => self.hung_up = true,
                },
                _ = self.process.end() => {}
            }
        }
    }

    /// Reads and writes what is possible without waiting.
    fn exchange(&mut self) {
        while !self.outgoing.is_empty() {
            match self.write() {
                Ok(written) => self.outgoing.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A kernel that does not listen any more may still have something to say.
                Err(_) => self.outgoing.clear(),
            }
        }
        match self.stream.try_read_buf(self.incoming.space()) {
            Ok(0) => self.hung_up = true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.hung_up = true,
        }
    }

    fn write(&mut self) -> io::Result<usize> {
        let Some(attachment) = &self.attachment else {
            return self.stream.try_write(&self.outgoing);
        };
        let written = self.stream.try_io(Interest::WRITABLE, || {
            copy::write_with(&self.stream, &self.outgoing, attachment)
        })?;
        self.attachment = None;
        Ok(written)
    }

    /// Reads the last output of a process that has exited from its socket, which others may hold
    /// open.
    ///
    /// Not through the runtime: it may know of the end before it knows of the bytes.
    fn read_rest(&mut self) {
        let mut piece = [0; 16 << 10];
        match rustix::io::read(&self.stream, &mut piece) {
            Ok(length @ 1..) => self.incoming.space().extend_from_slice(&piece[..length]),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => self.hung_up = true,
        }
    }

    /// Returns the exit status of the process, after its socket was closed.
    async fn exit(&mut self) -> Exit {
        for _ in 0..2 {
            if let Ok(exit) = timeout(EXIT_TIMEOUT, self.process.end()).await {
                return self.process.explained(exit);
            }
            // It closed its socket and lives on: it is no kernel any more.
            self.kill();
        }
        Exit::Unknown
    }
}

impl Kernel for SocketKernel {
    fn send(&mut self, request: &Request<'_>) {
        let body = serde_json::to_vec(request).expect("strings and maps are always JSON");
        framed(&body, &mut self.outgoing);
        self.process.forget_kills();
    }

    fn receive(&mut self) -> BoxFuture<'_, Event> {
        self.next().boxed()
    }

    fn interrupt(&mut self) -> io::Result<()> {
        self.process.signal(Signal::INT)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn keep(&mut self) -> io::Result<()> {
        self.process.keep()
    }

    fn fork(&mut self) -> BoxFuture<'_, Result<Box<dyn Kernel>, ForkError>> {
        let copy = self.copy();
        async { copy.await.map(|copy| Box::new(copy) as Box<dyn Kernel>) }.boxed()
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.process.meter)
    }

    fn heap_limit(&self) -> Option<u64> {
        self.heap_limit
    }
}

/// Our ends of what lies between us and a kernel.
struct Ends {
    stream: UnixStream,
    kernel_stderr: KernelStderr,
}

impl Ends {
    /// Makes both ends, for one kernel.
    fn new(processes: &dyn Processes) -> io::Result<(Self, [OwnedFd; 3])> {
        let (ours, socket) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true)?;
        let (kernel_stderr, errors) = KernelStderr::new()?;
        let ends = Self {
            stream: UnixStream::from_std(ours)?,
            kernel_stderr,
        };
        Ok((ends, [socket, processes.null_device()?, errors]))
    }
}
