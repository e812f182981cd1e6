//! `/events/sandboxes` and `/skep/events`

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, StreamExt as _, stream};
use skep_control::{
    EventQuery, EventRecord, EventStream, NetworkChange, QuotaGuard, build_of_event,
};
use skep_telemetry::Chain;
use skep_types::{AddressRange, EndReason, EventKind, SandboxId};
use skep_wire::rest::{
    EVENT_TYPE_PREFIX, SandboxEvent, SandboxEventData, SandboxEventNetwork, SandboxExecution,
};

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

const PAGE: u32 = 10;
/// Interval at which a silent stream says that it is there: shorter than any proxy waits.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /events/sandboxes`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<Json<Vec<SandboxEvent>>, ApiError> {
    let query = query(&params)?;
    let events = edge.control().events(&authorized.caller, query).await?;
    Ok(Json(events.iter().map(render).collect()))
}

/// `GET /events/sandboxes/{id}`
pub(crate) async fn list_of_sandbox(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    params: Params,
) -> Result<Json<Vec<SandboxEvent>>, ApiError> {
    let not_found = || ApiError::not_found("events_not_found", "Sandbox events not found");
    let query = EventQuery {
        sandbox: Some(path.id().map_err(|_unknown| not_found())?),
        ..query(&params)?
    };
    let caller = &authorized.caller;
    let control = edge.control();
    let known = EventQuery {
        sandbox: query.sandbox.clone(),
        limit: 1,
        ..EventQuery::default()
    };
    if control.events(caller, known).await?.is_empty() {
        return Err(not_found());
    }
    let events = control.events(caller, query).await?;
    Ok(Json(events.iter().map(render).collect()))
}

/// `GET /skep/events`: the same as server-sent events, from now on or after `Last-Event-ID`.
pub(crate) async fn follow(
    authorized: Authorized,
    State(edge): State<Edge>,
    headers: HeaderMap,
    params: Params,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let caller = &authorized.caller;
    let place = edge.begin_stream(&caller.team.id)?;
    let sandbox = params.text("sandboxID").map(sandbox_id).transpose()?;
    let query = EventQuery {
        sandbox,
        kinds: kinds(&params)?,
        ..EventQuery::default()
    };
    let after = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let control = edge.control();
    let events = control.follow_events(caller, query, after).await?;
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(told(events, place)).keep_alive(keep_alive))
}

fn told(events: EventStream, place: QuotaGuard) -> impl Stream<Item = Result<Event, Infallible>> {
    let pages = stream::unfold((events, place), |(mut events, place)| async move {
        match events.next().await {
            Ok(page) => Some((page, (events, place))),
            Err(error) => {
                tracing::error!(error = %Chain(&error), "events cannot be read");
                None
            }
        }
    });
    pages.flat_map(|page| stream::iter(page).map(|record| Ok(server_sent(&record))))
}

/// An event as clients see it, as webhooks are sent it.
pub fn event_body(record: &EventRecord) -> Vec<u8> {
    serde_json::to_vec(&render(record)).expect("text and numbers serialise")
}

fn server_sent(record: &EventRecord) -> Event {
    let event = render(record);
    let data = serde_json::to_string(&event).expect("text and numbers serialise");
    let id = record.seq.to_string();
    Event::default().id(id).event(event.kind).data(data)
}

fn query(params: &Params) -> Result<EventQuery, ApiError> {
    let offset = params.number("offset", 0..=i64::from(u32::MAX))?;
    let order = [("true", true), ("false", false)];
    Ok(EventQuery {
        sandbox: None,
        kinds: kinds(params)?,
        oldest_first: params.word("orderAsc", &order)?.unwrap_or(false),
        offset: offset
            .and_then(|offset| u32::try_from(offset).ok())
            .unwrap_or(0),
        limit: params.page_size(PAGE)?,
    })
}

fn kinds(params: &Params) -> Result<Vec<EventKind>, ApiError> {
    let types = params.list("types").into_iter();
    types.map(|text| event_kind("types", text)).collect()
}

/// Reads a type of events, with or without what all of them begin with.
pub(crate) fn event_kind(parameter: &str, text: &str) -> Result<EventKind, ApiError> {
    let word = text.strip_prefix(EVENT_TYPE_PREFIX).unwrap_or(text);
    word.parse().map_err(|_unknown: String| {
        ApiError::validation(format_args!(
            "parameter `{parameter}` has no type of events: {text}"
        ))
    })
}

fn sandbox_id(text: &str) -> Result<SandboxId, ApiError> {
    SandboxPath::parse(text)?.id()
}

/// An event as clients see it.
fn render(record: &EventRecord) -> SandboxEvent {
    let label = record.kind.as_str();
    let is_over = matches!(record.kind, EventKind::Paused | EventKind::Killed);
    SandboxEvent {
        id: record.id.clone(),
        version: "v2".to_owned(),
        kind: format!("{EVENT_TYPE_PREFIX}{label}"),
        timestamp: record.at,
        event_category: "lifecycle".to_owned(),
        event_label: label.to_owned(),
        event_data: SandboxEventData {
            sandbox_metadata: record.metadata.clone(),
            execution: is_over.then(|| execution(record)),
            kill_reason: record
                .end_reason
                .map(|reason| kill_reason(reason).to_owned()),
            end_reason: record.end_reason.map(|reason| reason.to_string()),
            set_timeout: record.ends_at,
            network_egress: record.network.as_ref().map(network),
        },
        sandbox_id: record.sandbox.to_string(),
        sandbox_execution_id: record.execution.to_string(),
        sandbox_template_id: record.template.to_string(),
        sandbox_build_id: build_of_event(record),
        sandbox_team_id: record.team.to_string(),
    }
}

/// The lists of the contract, which has ranges and names apart.
fn network(change: &NetworkChange) -> SandboxEventNetwork {
    let is_range = |text: &&String| text.parse::<AddressRange>().is_ok();
    let (ranges, names): (Vec<_>, Vec<_>) = change.allowed.iter().partition(is_range);
    SandboxEventNetwork {
        allowed_cidrs: ranges.into_iter().cloned().collect(),
        denied_cidrs: change.denied.clone(),
        allowed_domains: names.into_iter().cloned().collect(),
    }
}

fn execution(record: &EventRecord) -> SandboxExecution {
    let length = record.at.duration_since(record.started_at).as_millis();
    SandboxExecution {
        started_at: record.started_at,
        vcpu_count: record.cpus,
        memory_mb: record.memory_mib,
        execution_time: i64::try_from(length).unwrap_or(i64::MAX).max(0),
    }
}

/// The contract's word for the reason of an end.
fn kill_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Killed => "request",
        EndReason::Timeout => "timeout",
        EndReason::ServerStopped => "admin",
        EndReason::HostRestart => "orphaned",
        EndReason::OutOfMemory
        | EndReason::DiskFull
        | EndReason::Crashed
        | EndReason::StartFailed => "unknown",
    }
}

impl Edge {
    /// Counts a stream of a team until the place is dropped.
    fn begin_stream(&self, team: &skep_types::TeamId) -> Result<QuotaGuard, ApiError> {
        self.streams()
            .take(team, MOST_STREAMS)
            .map_err(|skep_control::Full| {
                ApiError::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too_many_streams",
                    format!("your team follows events {MOST_STREAMS} times already; end one"),
                )
            })
    }
}

/// Limit on a team's streams of events at a time.
const MOST_STREAMS: u32 = 16;

#[cfg(test)]
mod tests {
    use skep_types::EventKind;
    use skep_wire::rest::EVENT_TYPES;

    #[test]
    fn types_on_the_wire_are_the_kinds_of_events() {
        assert_eq!(EVENT_TYPES, EventKind::ALL.map(EventKind::as_str));
    }
}
