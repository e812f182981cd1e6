//! Signals by which a person ends what runs.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::CliError;

/// The signals that end a command. From its making on they do nothing by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// Somebody wants the process to end.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, CliError> {
        let listen = |kind| signal(kind).map_err(CliError::failure);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one. None is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.interrupt.recv() => Signalled::Interrupt,
            _ = self.terminate.recv() => Signalled::Terminate,
            _ = self.hang_up.recv() => Signalled::HangUp,
        }
    }
}

impl Signalled {
    /// The exit code that shells know it by.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}
