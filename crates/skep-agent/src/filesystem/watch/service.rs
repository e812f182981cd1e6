//! The watching calls of the filesystem service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use connectrpc::{ConnectError, ErrorCode, RequestContext, ServiceStream};
use futures_util::StreamExt;
use skep_wire::rpc::filesystem as wire;
use skep_wire::rpc::filesystem::watch_dir_response::Event;

use super::{Batch, Gap, Wanted, Watch};
use crate::agent::Agent;
use crate::filesystem::FileError;
use crate::filesystem::service::with_view;
use crate::http::caller;

impl From<Gap> for ConnectError {
    fn from(gap: Gap) -> Self {
        let code = match gap {
            Gap::Overflow => ErrorCode::DataLoss,
            Gap::Limit => ErrorCode::ResourceExhausted,
        };
        Self::new(code, gap.to_string())
    }
}

async fn open(
    agent: &Agent,
    context: &RequestContext,
    wanted: Wanted,
) -> Result<Arc<Watch>, FileError> {
    let requested = wanted.path.clone();
    let path = with_view(agent, context, move |view| view.resolve(&requested)).await?;
    let (accounts, memory) = (agent.spawner.accounts.clone(), agent.watchers.memory());
    Watch::start(Wanted { path, ..wanted }, accounts, memory).await
}

pub(crate) async fn watch_dir(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::WatchDirRequest,
) -> Result<ServiceStream<wire::WatchDirResponse>, ConnectError> {
    let wanted = Wanted {
        path: request.path,
        recursive: request.recursive,
        include_entry: request.include_entry,
        allow_network_mounts: request.allow_network_mounts,
    };
    let watch = open(&agent, &context, wanted).await?;
    let follow = Follow {
        watch,
        pending: None,
        keepalive: caller::keepalive(context.headers()),
        deadline: context.deadline(),
    };
    let start = Ok(response(Event::Start(Box::default())));
    let events = futures_util::stream::unfold(Some(follow), |follow| async move {
        let mut follow = follow?;
        let event = follow.next().await;
        let go_on = event.is_ok();
        Some((event, go_on.then_some(follow)))
    });
    Ok(Box::pin(
        futures_util::stream::once(std::future::ready(start)).chain(events),
    ))
}

pub(crate) async fn create_watcher(
    agent: Arc<Agent>,
    context: RequestContext,
    request: wire::CreateWatcherRequest,
) -> Result<wire::CreateWatcherResponse, ConnectError> {
    let wanted = Wanted {
        path: request.path,
        recursive: request.recursive,
        include_entry: request.include_entry,
        allow_network_mounts: request.allow_network_mounts,
    };
    let watch = open(&agent, &context, wanted).await?;
    let watcher_id = agent.watchers.add(watch).ok_or(FileError::TooManyWatches)?;
    Ok(wire::CreateWatcherResponse { watcher_id })
}

pub(crate) async fn get_watcher_events(
    agent: Arc<Agent>,
    _context: RequestContext,
    request: wire::GetWatcherEventsRequest,
) -> Result<wire::GetWatcherEventsResponse, ConnectError> {
    let watch = agent
        .watchers
        .find(&request.watcher_id)
        .ok_or_else(|| unknown(&request.watcher_id))?;
    Ok(wire::GetWatcherEventsResponse {
        events: watch.take().await??.into_events(),
    })
}

pub(crate) async fn remove_watcher(
    agent: Arc<Agent>,
    _context: RequestContext,
    request: wire::RemoveWatcherRequest,
) -> Result<wire::RemoveWatcherResponse, ConnectError> {
    if agent.watchers.remove(&request.watcher_id) {
        Ok(wire::RemoveWatcherResponse::default())
    } else {
        Err(unknown(&request.watcher_id))
    }
}

fn unknown(id: &str) -> ConnectError {
    ConnectError::new(
        ErrorCode::NotFound,
        format!("watcher with id {id} not found"),
    )
}

fn response(event: Event) -> wire::WatchDirResponse {
    wire::WatchDirResponse { event: Some(event) }
}

/// A watch on its way to the client.
struct Follow {
    watch: Arc<Watch>,
    pending: Option<Batch>,
    keepalive: Duration,
    deadline: Option<Instant>,
}

impl Follow {
    async fn next(&mut self) -> Result<wire::WatchDirResponse, ConnectError> {
        loop {
            if let Some(event) = self.pending.as_mut().and_then(Batch::next) {
                return Ok(response(Event::Filesystem(Box::new(event))));
            }
            let silence = Instant::now() + self.keepalive;
            let wake = self
                .deadline
                .map_or(silence, |deadline| deadline.min(silence));
            tokio::select! {
                biased;
                changed = self.watch.changed() => {
                    changed.map_err(|error| ConnectError::new(ErrorCode::Internal, error.to_string()))?;
                    self.pending = Some(self.watch.take().await??);
                }
                () = tokio::time::sleep_until(wake.into()) => {
                    if self.deadline.is_some_and(|deadline| deadline <= wake) {
                        let text = "the deadline of the stream has passed";
                        return Err(ConnectError::new(ErrorCode::DeadlineExceeded, text));
                    }
                    return Ok(response(Event::Keepalive(Box::default())));
                }
            }
        }
    }
}
