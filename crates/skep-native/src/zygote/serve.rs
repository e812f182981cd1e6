//! Answering the questions of one sandbox's agent.

use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use skep_linux::packet;
use skep_telemetry::Chain;
use skep_types::SandboxId;
use skep_wire::agent::fork::ForkAnswer;
use tokio::io::unix::AsyncFd;

use super::fork::{ForkError, fork};
use super::holder::Holder;
use crate::host::Host;
use crate::instance::Slot;

/// Longer questions than one byte are not asked.
const LONGEST_QUESTION: usize = 16;

/// The sandbox that asks. It gets kernels for itself and for nobody else.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) id: SandboxId,
    pub(crate) slot: Slot,
    /// Its first process.
    pub(crate) pid: i32,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Answered,
    /// There is no question yet.
    Wait,
    End,
}

/// Answers until the agent is gone, one question at a time.
pub(crate) fn serve(host: Arc<Host>, holder: Arc<Holder>, client: Client, socket: OwnedFd) {
    let socket = Arc::new(socket);
    skep_telemetry::spawn("fork kernels", async move {
        #[expect(
            deprecated,
            reason = "what the newer call demands is what an owned descriptor is: open, and always the same"
        )]
        let watched = match AsyncFd::new(Arc::clone(&socket)) {
            Ok(watched) => watched,
            Err(error) => {
                tracing::warn!(%error, "an agent's questions are not heard");
                return;
            }
        };
        loop {
            let Ok(mut readable) = watched.readable().await else {
                return;
            };
            let (host, holder, client) = (Arc::clone(&host), Arc::clone(&holder), client.clone());
            let socket = Arc::clone(&socket);
            let work = move || answer(&host, &holder, &client, &socket);
            match tokio::task::spawn_blocking(work).await {
                Ok(Course::Answered) => {}
                Ok(Course::Wait) => readable.clear_ready(),
                Ok(Course::End) | Err(_) => return,
            }
        }
    });
}

fn answer(host: &Host, holder: &Holder, client: &Client, socket: &OwnedFd) -> Course {
    let start = Instant::now();
    let question = match packet::receive(socket, LONGEST_QUESTION, start) {
        Ok(Some(question)) => question,
        Ok(None) => return Course::End,
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Course::Wait,
        Err(error) => {
            tracing::debug!(sandbox = %client.id, %error, "an agent asks in an odd way");
            return Course::End;
        }
    };
    let counts = &host.zygotes.counts;
    let sent = match fork(host, holder, client, &question) {
        Ok(forked) => {
            counts.forked.add_one();
            counts.fork.record(start.elapsed());
            let answer = ForkAnswer::Forked { pid: forked.pid };
            send(socket, &answer, Some(&forked.go))
        }
        Err(error) => {
            let counter = match &error {
                ForkError::Dead(_) | ForkError::Machine(_) => &counts.dead,
                ForkError::Slow => &counts.slow,
                ForkError::Stalled => &counts.stalled,
                ForkError::Declined => &counts.declined,
                ForkError::Different(_) => &counts.different,
                ForkError::Nonsense(_) => &counts.nonsense,
            };
            counter.add_one();
            // A sandbox can cause it as often as it likes.
            if let Some(unsaid) = host.zygotes.warnings.admit() {
                tracing::warn!(sandbox = %client.id, error = %Chain(&error), unsaid, "no kernel was forked");
            }
            let is_useless = match &error {
                ForkError::Slow => host.zygotes.gives_up_after(holder.silence()),
                ForkError::Different(difference) => !difference.may_be_of_the_sandbox(),
                ForkError::Dead(_)
                | ForkError::Machine(_)
                | ForkError::Stalled
                | ForkError::Declined
                | ForkError::Nonsense(_) => false,
            };
            if is_useless {
                // It does not do its work, or not honestly. The next one may.
                tracing::warn!(error = %Chain(&error), "ending a zygote");
                holder.end();
            }
            send(socket, &ForkAnswer::Refused, None)
        }
    };
    match sent {
        Ok(()) => Course::Answered,
        Err(_) => Course::End,
    }
}

fn send(socket: &OwnedFd, answer: &ForkAnswer, go: Option<&OwnedFd>) -> std::io::Result<()> {
    let text = serde_json::to_vec(answer).expect("plain fields are always JSON");
    let descriptors: Vec<_> = go.iter().map(|go| go.as_fd()).collect();
    packet::send(socket, &text, &descriptors)
}
