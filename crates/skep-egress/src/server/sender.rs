//! The server's side of the process that sends requests. It is started when the first of them comes.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::starter::Process;
use super::{DIALS, SandboxState, judge};
use crate::channel::{Channel, OF_REQUESTS};
use crate::message::{FromSender, Refusal, Route, ToSender};
use crate::process::{Part, Terms};
use skep_telemetry::Chain;

/// Time between two starts.
const RESTART: Duration = Duration::from_secs(1);

/// The process, while there is one.
#[derive(Default)]
pub(super) struct Sender {
    running: Option<Running>,
    started: Option<Instant>,
}

#[derive(Clone)]
struct Running {
    channel: Arc<Channel>,
    stop: CancellationToken,
}

/// Hands a connection over, and returns the pipe by which it is used.
pub(super) async fn lead(
    room: &Arc<SandboxState>,
    route: Route,
    socket: OwnedFd,
) -> Result<OwnedFd, Refusal> {
    let running = running(room).await.map_err(|error| {
        tracing::error!(error = %Chain(&error), "requests of a sandbox cannot be sent");
        Refusal::NoAnswer
    })?;
    let handed = async {
        let (ours, theirs) = crate::channel::pipe()?;
        let descriptors = [theirs.as_fd(), socket.as_fd()];
        let message = ToSender::Route(route);
        running.channel.send(&message, &descriptors).await?;
        io::Result::Ok(ours)
    };
    handed.await.map_err(|error| {
        tracing::debug!(%error, "a connection is not handed over");
        Refusal::NoAnswer
    })
}

/// Ends the process, if there is one.
pub(super) async fn end(room: &SandboxState) {
    if let Some(running) = room.sender.lock().await.running.take() {
        running.stop.cancel();
    }
}

/// The process, which is started if there is none.
async fn running(room: &Arc<SandboxState>) -> io::Result<Running> {
    let mut sender = room.sender.lock().await;
    if let Some(running) = &sender.running
        && !running.stop.is_cancelled()
    {
        return Ok(running.clone());
    }
    if (sender.started).is_some_and(|started| started.elapsed() < RESTART) {
        return Err(io::Error::other("it has ended a moment ago"));
    }
    sender.started = Some(Instant::now());
    let inspection = room.inspection.get().ok_or(io::ErrorKind::Unsupported)?;
    let roots = read_only(inspection.roots.as_bytes())?;
    let (ours, theirs) = crate::channel::pair()?;
    let terms = serde_json::to_string(&Terms {
        user: room.sender_user,
        part: Part::Sender,
    })?;
    let process = room.program.start(terms, theirs, roots).await?;
    let running = Running {
        channel: Arc::new(Channel::new(ours, OF_REQUESTS)?),
        stop: room.stop.child_token(),
    };
    let hearing = hear(Arc::clone(room), running.clone(), process);
    drop(skep_telemetry::spawn("egress sender", hearing));
    sender.running = Some(running.clone());
    Ok(running)
}

/// Hears the process until it ends, or is to end. Its connections end with it.
async fn hear(room: Arc<SandboxState>, running: Running, process: Process) {
    let ended = tokio::select! {
        () = running.stop.cancelled() => Ok(()),
        ended = converse(&room, &running) => {
            tracing::warn!("egress sender of a sandbox exited");
            ended
        }
    };
    if let Err(error) = ended {
        tracing::error!(error = %Chain(&error), "egress sender of a sandbox failed");
    }
    running.stop.cancel();
    drop(process);
    room.live.end_routes();
}

async fn converse(room: &Arc<SandboxState>, running: &Running) -> io::Result<()> {
    let turns = Arc::new(Semaphore::new(DIALS));
    while let Some((message, _nothing)) = running.channel.receive::<FromSender>().await? {
        match message {
            FromSender::Judge {
                route,
                request,
                method,
                path,
            } => {
                let turn = Arc::clone(&turns)
                    .acquire_owned()
                    .await
                    .expect("nobody closes the semaphore");
                let (room, channel) = (Arc::clone(room), Arc::clone(&running.channel));
                drop(skep_telemetry::spawn("judge a request", async move {
                    let asked = (method.as_str(), path.as_str());
                    let judged = judge::judge(&room.live, &room.ledger, route, asked).await;
                    let message = match judged {
                        Ok((headers, pace)) => ToSender::Go {
                            request,
                            headers,
                            pace,
                        },
                        Err(refusal) => ToSender::Stop { request, refusal },
                    };
                    answer(&channel, request, &message).await;
                    drop(turn);
                }));
            }
            FromSender::Done { route } => room.live.remove(route),
            FromSender::Spent { rule, bytes } => room.ledger.spend(&rule, bytes),
            FromSender::Ended(ended) => room.log.add(ended),
        }
    }
    Ok(())
}

async fn answer(channel: &Channel, request: u64, message: &ToSender) {
    let Err(error) = channel.send(message, &[]).await else {
        return;
    };
    // Values that are longer than any message, or nobody is there any more.
    tracing::debug!(%error, "an answer about a request is not delivered");
    let refusal = Refusal::NoValue;
    drop(
        channel
            .send(&ToSender::Stop { request, refusal }, &[])
            .await,
    );
}

/// A file that nobody can change, with these contents.
fn read_only(contents: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("egress roots", flags)?);
    io::Write::write_all(&mut file, contents)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}
