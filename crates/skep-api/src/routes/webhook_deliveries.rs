//! `/events/webhooks/{id}/deliveries`, what was given up, and numbers of both

use axum::Json;
use axum::extract::State;
use skep_control::{AttemptRecord, DeliveryPage, DeliveryQuery, DeliveryRecord};
use skep_types::{AttemptFailure, DeliveryStatus};
use skep_wire::rest::{self, EVENT_TYPE_PREFIX};

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::router::Edge;
use crate::routes::events::event_kind;
use crate::routes::webhooks::read_id;
use crate::sandbox_path::PathSegment;

const PAGE: u32 = 25;

/// `GET /events/webhooks/{id}/deliveries`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
    params: Params,
) -> Result<Json<rest::WebhookDeliveries>, ApiError> {
    let words = DeliveryStatus::ALL.map(|status| (status.as_str(), status));
    let query = DeliveryQuery {
        statuses: params.words("deliveryStatus", &words)?,
        ..query(&params)?
    };
    let control = edge.control();
    let page = control.deliveries(&authorized.caller, read_id(&id)?, query);
    Ok(Json(render(&page.await?)))
}

/// `GET /events/webhooks/{id}/stats`
pub(crate) async fn stats(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<Json<rest::WebhookStats>, ApiError> {
    let control = edge.control();
    let counts = control
        .delivery_counts(&authorized.caller, read_id(&id)?)
        .await?;
    Ok(Json(rest::WebhookStats {
        total: counts.pending + counts.delivered + counts.failed,
        pending: counts.pending,
        delivered: counts.delivered,
        failed: counts.failed,
        attempts: counts.attempts,
    }))
}

/// `GET /skep/webhooks/dead-letters`
pub(crate) async fn dead_letters(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<Json<rest::WebhookDeliveries>, ApiError> {
    let control = edge.control();
    let page = control.dead_letters(&authorized.caller, query(&params)?);
    Ok(Json(render(&page.await?)))
}

/// `POST /skep/webhooks/{id}/redeliver`
pub(crate) async fn redeliver(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<Json<rest::Redelivered>, ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let count = edge.control().redeliver(caller, read_id(&id)?).await?;
    Ok(Json(rest::Redelivered {
        redelivered: u64::try_from(count).unwrap_or(u64::MAX),
    }))
}

fn query(params: &Params) -> Result<DeliveryQuery, ApiError> {
    let kinds = params
        .list("eventType")
        .into_iter()
        .map(|text| event_kind("eventType", text));
    let cursor = params.number("cursor", 0..=i64::MAX)?;
    let order = [("true", true), ("false", false)];
    Ok(DeliveryQuery {
        statuses: Vec::new(),
        kinds: kinds.collect::<Result<_, _>>()?,
        start: params.time("start")?,
        end: params.time("end")?,
        cursor: cursor.and_then(|cursor| u64::try_from(cursor).ok()),
        oldest_first: params.word("orderAsc", &order)?.unwrap_or(false),
        limit: params.page_size(PAGE)?,
    })
}

fn render(page: &DeliveryPage) -> rest::WebhookDeliveries {
    rest::WebhookDeliveries {
        data: page.deliveries.iter().map(delivery).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }
}

fn delivery(record: &DeliveryRecord) -> rest::WebhookDelivery {
    rest::WebhookDelivery {
        delivery_id: record.id.to_string(),
        webhook_id: record.webhook.to_string(),
        status: record.status.as_str().to_owned(),
        event_id: record.event.clone(),
        event_type: format!("{EVENT_TYPE_PREFIX}{}", record.kind.as_str()),
        sandbox_id: record.sandbox.to_string(),
        created_at: record.created_at,
        next_attempt_at: record.due_at,
        attempts: record.attempts.iter().map(attempt).collect(),
    }
}

fn attempt(record: &AttemptRecord) -> rest::WebhookAttempt {
    let failure = record.failure.map(AttemptFailure::as_str);
    rest::WebhookAttempt {
        attempted_at: record.at,
        duration_ms: u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX),
        status_code: record.answer,
        error_class: failure.map(str::to_owned),
    }
}
