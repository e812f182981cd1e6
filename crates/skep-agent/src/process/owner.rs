//! The task that owns a process.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rustix::process::{Signal, WaitStatus};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::audience::Output;
use super::{Process, Processes};
use crate::channel::{Channel, MAX_PIECE};
use crate::exit_status::Ended;

/// Of what others still write after the end of a signalled process: at most a full pipe.
const LAST_WORDS: usize = 1 << 20;

/// A terminal gives less at once than a pipe.
const TERMINAL_PIECE: usize = 16 << 10;

/// Where the output of a process comes from.
#[derive(Debug)]
pub(super) enum Outputs {
    Pipes { stdout: Channel, stderr: Channel },
    Terminal(Arc<Channel>),
}

/// Sees a process to its end: until it has exited, and its output has come to an end or
/// nobody needs to wait for that because it was signalled.
pub(super) async fn own(
    processes: Arc<Processes>,
    process: Arc<Process>,
    outputs: Outputs,
    mut exit: oneshot::Receiver<WaitStatus>,
    deadline: Option<Instant>,
) {
    let finish = CancellationToken::new();
    let drained = drain(&process, &outputs, &finish);
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
            () = process.released.cancelled(), if ended.is_some() && !finish.is_cancelled() => {
                finish.cancel();
            }
        }
    }
    let ended = ended.unwrap_or_else(unknown_end);
    // First forgotten, then told: who has seen the end no longer finds the process in a list.
    processes.retire(&process, ended.clone());
    process.audience.end(ended);
    process.gone.cancel();
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
    }
}

async fn drain(process: &Process, outputs: &Outputs, finish: &CancellationToken) {
    match outputs {
        Outputs::Pipes { stdout, stderr } => {
            tokio::join!(
                pass_on(process, stdout, MAX_PIECE, Output::Stdout, finish),
                pass_on(process, stderr, MAX_PIECE, Output::Stderr, finish),
            );
        }
        Outputs::Terminal(terminal) => {
            pass_on(process, terminal, TERMINAL_PIECE, Output::Terminal, finish).await;
        }
    }
}

async fn pass_on(
    process: &Process,
    channel: &Channel,
    limit: usize,
    output: fn(Bytes) -> Output,
    finish: &CancellationToken,
) {
    loop {
        let piece = tokio::select! {
            biased;
            piece = channel.read(limit) => piece,
            () = finish.cancelled() => return last_words(process, channel, limit, output).await,
        };
        match piece {
            Ok(Some(piece)) => process.audience.publish(output(piece)).await,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "output of a process cannot be read");
                return;
            }
        }
        if finish.is_cancelled() {
            return last_words(process, channel, limit, output).await;
        }
    }
}

/// What is in the pipe already, and not more than fits into one: others may go on writing.
async fn last_words(
    process: &Process,
    channel: &Channel,
    limit: usize,
    output: fn(Bytes) -> Output,
) {
    let mut left = LAST_WORDS;
    while left > 0
        && let Ok(Some(piece)) = channel.read_now(limit)
    {
        left = left.saturating_sub(piece.len());
        process.audience.publish(output(piece)).await;
    }
}
