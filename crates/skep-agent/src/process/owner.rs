//! The task that owns a process.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rustix::process::{Signal, WaitStatus};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::spawner::Spawner;
use super::subscribers::Output;
use super::{Process, Processes};
use crate::process::exit_status::Ended;
use crate::process::pipe_end::{MAX_PIECE, PipeEnd};
use crate::sandbox::log::{Lines, SandboxLog, Stream};

/// Limit for output that others still write after the end of a signalled process: a full pipe.
const TAIL: usize = 1 << 20;

/// A terminal gives less at once than a pipe.
const TERMINAL_PIECE: usize = 16 << 10;

/// Sources of the output of a process.
#[derive(Debug)]
pub(super) enum Outputs {
    Pipes { stdout: PipeEnd, stderr: PipeEnd },
    Terminal(Arc<PipeEnd>),
}

/// Sees a process to its end: until it has exited, and its output has come to an end or
/// nobody needs to wait for that because it was signalled.
pub(super) async fn own(
    processes: Arc<Processes>,
    process: Arc<Process>,
    outputs: Outputs,
    mut exit: oneshot::Receiver<WaitStatus>,
    deadline: Option<Instant>,
    memory: MemoryWatch,
) {
    let log = processes.log();
    log.started(process.pid(), &process.config.cmd);
    let finish = CancellationToken::new();
    let drained = drain(&process, &outputs, log, &finish);
    tokio::pin!(drained);
    let expired = expire(deadline);
    tokio::pin!(expired);
    let mut ended = None;
    let (mut silent, mut late) = (false, false);
    while ended.is_none() || !silent {
        tokio::select! {
            status = &mut exit, if ended.is_none() => {
                // The reaper drops a sender only after it was used.
                ended = Some(status.map_or_else(|_| unknown_end(), Ended::from_wait));
            }
            () = &mut drained, if !silent => silent = true,
            () = &mut expired, if !late => {
                late = true;
                if let Err(error) = process.signal(processes.reaper(), Signal::KILL) {
                    tracing::debug!(%error, "process ended at its deadline by itself");
                }
            }
            // Something that it started may hold its pipes open for ever. Whoever signalled it does
            // not wait for that: only what is in the pipes already is still read.
            () = process.released.cancelled(), if ended.is_some() && !finish.is_cancelled() => {
                finish.cancel();
            }
        }
    }
    let mut ended = ended.unwrap_or_else(unknown_end);
    if ended.is_killed() && !late && memory.has_killed() {
        ended.out_of_memory = true;
        process.subscribers.publish(notice(&outputs)).await;
    }
    log.ended(process.pid(), &ended);
    // First forgotten, then told: who has seen the end no longer finds the process in a list.
    processes.retire(&process, ended.clone());
    process.subscribers.end(ended);
    process.gone.cancel();
}

/// Says in the output of a process why it was killed: the clients that report its end show what
/// it wrote, and nothing else.
fn notice(outputs: &Outputs) -> Output {
    const NOTICE: &str =
        "Killed: the sandbox is out of memory; use less, or a template that has more";
    match outputs {
        Outputs::Pipes { .. } => Output::Stderr(format!("{NOTICE}\n").into()),
        Outputs::Terminal(_) => Output::Terminal(format!("{NOTICE}\r\n").into()),
    }
}

/// Counter of what the kernel kills in the sandbox for want of memory, as it was when a process
/// started.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    spawner: Arc<Spawner>,
    before: Option<u64>,
}

impl MemoryWatch {
    pub(super) fn begin(spawner: Arc<Spawner>) -> Self {
        let before = spawner.out_of_memory_kills();
        Self { spawner, before }
    }

    /// Returns true if the kernel has killed anything since then.
    fn has_killed(&self) -> bool {
        let now = self.spawner.out_of_memory_kills();
        matches!((self.before, now), (Some(before), Some(now)) if now > before)
    }
}

async fn expire(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn unknown_end() -> Ended {
    Ended {
        exit_code: -1,
        exited: false,
        status: "unknown".to_owned(),
        out_of_memory: false,
    }
}

async fn drain(process: &Process, outputs: &Outputs, log: &SandboxLog, finish: &CancellationToken) {
    let listen = |stream| Some(log.listen(process.pid(), stream));
    match outputs {
        Outputs::Pipes { stdout, stderr } => {
            let stdout = Source {
                channel: stdout,
                limit: MAX_PIECE,
                output: Output::Stdout,
                lines: listen(Stream::Stdout),
            };
            let stderr = Source {
                channel: stderr,
                limit: MAX_PIECE,
                output: Output::Stderr,
                lines: listen(Stream::Stderr),
            };
            tokio::join!(
                stdout.pass_on(process, finish),
                stderr.pass_on(process, finish)
            );
        }
        Outputs::Terminal(terminal) => {
            let terminal = Source {
                channel: terminal,
                limit: TERMINAL_PIECE,
                output: Output::Terminal,
                lines: None,
            };
            terminal.pass_on(process, finish).await;
        }
    }
}

/// One output of a process, on its way to whoever listens.
struct Source<'a> {
    channel: &'a PipeEnd,
    limit: usize,
    output: fn(Bytes) -> Output,
    /// Missing for what is not kept in the log.
    lines: Option<Lines>,
}

impl Source<'_> {
    async fn pass_on(mut self, process: &Process, finish: &CancellationToken) {
        loop {
            let piece = tokio::select! {
                biased;
                piece = self.channel.read(self.limit) => piece,
                () = finish.cancelled() => return self.publish_tail(process).await,
            };
            match piece {
                Ok(Some(piece)) => self.publish(process, piece).await,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "output of a process cannot be read");
                    return;
                }
            }
            if finish.is_cancelled() {
                return self.publish_tail(process).await;
            }
        }
    }

    /// Publishes the output that is in the pipe already, and not more than fits into one: others
    /// may go on writing.
    async fn publish_tail(mut self, process: &Process) {
        let mut left = TAIL;
        while left > 0
            && let Ok(Some(piece)) = self.channel.read_now(self.limit)
        {
            left = left.saturating_sub(piece.len());
            self.publish(process, piece).await;
        }
    }

    async fn publish(&mut self, process: &Process, piece: Bytes) {
        if let Some(lines) = &mut self.lines {
            lines.take(&piece);
        }
        process.subscribers.publish((self.output)(piece)).await;
    }
}
