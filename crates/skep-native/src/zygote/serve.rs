//! Answering the questions of one sandbox's agent.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use skep_agent_protocol::fork::ForkAnswer;
use skep_host::Lease;
use skep_linux::packet::{self, Packet};
use skep_telemetry::Chain;
use tokio::io::unix::AsyncFd;

use super::Zygotes;
use super::fork::{ForkError, fork};
use super::holder::Holder;
use super::verify_fork;
use crate::process::ProcessHandle;
use crate::watch::watch;

/// Longer questions than one byte are not asked.
const LONGEST_QUESTION: usize = 16;

/// The sandbox that asks. It gets kernels for itself and for nobody else.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) lease: Arc<Lease>,
    /// First process of the sandbox.
    pub(crate) process: Arc<ProcessHandle>,
}

/// Answers until the agent is gone, one question at a time.
pub(crate) fn serve(zygotes: Arc<Zygotes>, holder: Arc<Holder>, client: Client, socket: OwnedFd) {
    // Of its own: whoever asked for this sandbox, or for the first spare, has nothing to do with
    // its questions.
    let span = tracing::info_span!(parent: None, "forks", sandbox = %client.lease.id());
    let serving = async move {
        let socket = match watch(socket) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot watch the fork socket of an agent");
                return;
            }
        };
        loop {
            let question = match receive(&socket, LONGEST_QUESTION).await {
                Ok(Some(question)) => question,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "an agent asks in an odd way");
                    return;
                }
            };
            if answer(&zygotes, &holder, &client, question, socket.get_ref())
                .await
                .is_err()
            {
                return;
            }
        }
    };
    span.in_scope(|| skep_telemetry::spawn("fork kernels", serving));
}

/// Receives the next packet, as [`packet::receive`] does, without a thread that waits.
pub(super) async fn receive(socket: &AsyncFd<OwnedFd>, limit: usize) -> io::Result<Option<Packet>> {
    loop {
        let mut readable = socket.readable().await?;
        match packet::receive(socket.get_ref(), limit, Instant::now()) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => readable.clear_ready(),
            received => return received,
        }
    }
}

/// Fails if nobody listens any more.
async fn answer(
    zygotes: &Arc<Zygotes>,
    holder: &Arc<Holder>,
    client: &Client,
    question: Packet,
    socket: &OwnedFd,
) -> io::Result<()> {
    let start = Instant::now();
    let counts = &zygotes.counts;
    match fork(zygotes, holder, client, question).await {
        Ok(forked) => {
            counts.forked.add_one();
            counts.fork.record(start.elapsed());
            let answer = ForkAnswer::Forked { pid: forked.pid };
            send(socket, &answer, Some(&forked.go))
        }
        Err(error) => {
            let counter = match &error {
                ForkError::Dead(_) | ForkError::Host(_) => &counts.dead,
                ForkError::Slow => &counts.slow,
                ForkError::Stalled => &counts.stalled,
                ForkError::Declined => &counts.declined,
                ForkError::Different(_) => &counts.different,
                ForkError::Malformed(_) => &counts.nonsense,
            };
            counter.add_one();
            // A sandbox can cause it as often as it likes.
            if let Some(unsaid) = zygotes.warnings.admit() {
                tracing::warn!(error = %Chain(&error), unsaid, "cannot fork kernel from zygote");
            }
            // The rest is within the power of a sandbox, or a sandbox that ends: one of them must
            // not end the zygote of the others.
            let is_useless = match &error {
                ForkError::Slow => zygotes.gives_up_after(holder.silence()),
                ForkError::Different(difference) => !verify_fork::may_be_of_the_sandbox(difference),
                ForkError::Dead(_)
                | ForkError::Host(_)
                | ForkError::Stalled
                | ForkError::Declined
                | ForkError::Malformed(_) => false,
            };
            if is_useless {
                // It does not do its work, or not honestly. The next one may.
                tracing::warn!(error = %Chain(&error), "ending a zygote");
                holder.end();
            }
            send(socket, &ForkAnswer::Refused, None)
        }
    }
}

fn send(socket: &OwnedFd, answer: &ForkAnswer, go: Option<&OwnedFd>) -> io::Result<()> {
    let text = serde_json::to_vec(answer).expect("plain fields are always JSON");
    let descriptors: Vec<_> = go.iter().map(|go| go.as_fd()).collect();
    packet::send(socket, &text, &descriptors)
}
