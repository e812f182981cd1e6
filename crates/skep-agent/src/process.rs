//! Processes that callers start, watch and steer.
//!
//! One task owns each process (`owner.rs`): it passes the output on, learns of the end, and
//! kills at the deadline. A process does not depend on the stream that started it: streams
//! subscribe and go as they like (`subscribers.rs`), and what nobody listens to is discarded.

mod adopt;
pub(crate) mod cgroups;
pub(crate) mod exit_status;
pub(crate) mod fork_client;
mod input;
mod launch;
mod owner;
pub(crate) mod pipe_end;
pub(crate) mod reaper;
mod registry;
pub(crate) mod service;
mod spawner;
mod starting;
mod subscribers;

use std::io;
use std::sync::Arc;

use rustix::process::{Pid, Signal};
use rustix::termios::{Winsize, tcsetwinsize};
use skep_wire::rpc::process as wire;
use tokio_util::sync::CancellationToken;

use crate::process::pipe_end::PipeEnd;
use crate::process::reaper::Reaper;
use input::Input;
use subscribers::Subscribers;

pub(crate) use launch::StartError;
pub(crate) use registry::Processes;
pub(crate) use spawner::{Child, Program, Spawner};

/// A process that was started through the agent and has not ended.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    config: wire::ProcessConfig,
    tag: Option<String>,
    input: Input,
    terminal: Option<Arc<PipeEnd>>,
    subscribers: Subscribers,
    /// Cancelled by a signal or a deadline: the end of the process then no longer waits for
    /// others that hold its output open.
    released: CancellationToken,
    /// Cancelled when the process has ended and is no longer listed.
    gone: CancellationToken,
}

impl Process {
    /// The number by which it is known in the sandbox.
    fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Signals the process itself, not its children.
    fn signal(&self, reaper: &Reaper, signal: Signal) -> io::Result<()> {
        self.released.cancel();
        reaper.signal(self.pid, signal)
    }

    /// Gives the terminal another size. `None` if the process has no terminal.
    fn resize(&self, size: &wire::pty::Size) -> Option<io::Result<()>> {
        let terminal = self.terminal.as_ref()?;
        Some(tcsetwinsize(terminal.descriptor(), window(size)).map_err(io::Error::from))
    }
}

fn window(size: &wire::pty::Size) -> Winsize {
    let side = |length: u32| u16::try_from(length).unwrap_or(u16::MAX);
    Winsize {
        ws_row: side(size.rows),
        ws_col: side(size.cols),
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
