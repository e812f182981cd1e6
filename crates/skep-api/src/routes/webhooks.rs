//! `/events/webhooks`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{NewWebhook, SecretValue, WebhookError, WebhookRecord, WebhookUpdate};
use skep_telemetry::Chain;
use skep_types::{EventKind, WebhookId};
use skep_wire::rest::{self, EVENT_TYPE_PREFIX};

use crate::authorized::Authorized;
use crate::body::RawBody;
use crate::error::{ApiError, Retry};
use crate::router::Edge;
use crate::routes::events::event_kind;
use crate::sandbox_path::PathSegment;

/// Longest name, in bytes.
const LONGEST_NAME: usize = 256;
/// Longest secret, in bytes.
const LONGEST_SECRET: usize = 1024;

/// `POST /events/webhooks`
pub(crate) async fn create(
    authorized: Authorized,
    State(edge): State<Edge>,
    body: RawBody,
) -> Result<(StatusCode, Json<rest::Webhook>), ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    // What is wrong with it is not repeated: it may be the secret.
    let body: rest::NewWebhook = body.parse().map_err(|_told| {
        invalid("name, url and signatureSecret are texts, events is a list of types")
    })?;
    let webhook = NewWebhook {
        name: name(body.name)?,
        url: url(&edge, &body.url)?,
        kinds: kinds(&body.events)?,
        secret: secret(body.signature_secret)?,
        is_enabled: body.enabled.unwrap_or(true),
    };
    let made = edge.control().create_webhook(caller, webhook).await?;
    Ok((StatusCode::CREATED, Json(render(&made))))
}

/// `GET /events/webhooks`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
) -> Result<Json<Vec<rest::Webhook>>, ApiError> {
    let found = edge.control().webhooks(&authorized.caller).await?;
    Ok(Json(found.iter().map(render).collect()))
}

/// `GET /events/webhooks/{id}`
pub(crate) async fn get(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<Json<rest::Webhook>, ApiError> {
    let control = edge.control();
    let found = control.find_webhook(&authorized.caller, read_id(&id)?);
    Ok(Json(render(&found.await?)))
}

/// `PATCH /events/webhooks/{id}`
pub(crate) async fn update(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
    body: RawBody,
) -> Result<Json<rest::Webhook>, ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let id = read_id(&id)?;
    let body: rest::UpdateWebhook = body.parse().map_err(|_told| {
        invalid("name, url and signatureSecret are texts, events is a list of types")
    })?;
    let update = WebhookUpdate {
        name: body.name.map(name).transpose()?,
        url: body.url.map(|text| url(&edge, &text)).transpose()?,
        kinds: body.events.map(|types| kinds(&types)).transpose()?,
        secret: body.signature_secret.map(secret).transpose()?,
        is_enabled: body.enabled,
    };
    let updated = edge.control().update_webhook(caller, id, update).await?;
    Ok(Json(render(&updated)))
}

/// `DELETE /events/webhooks/{id}`
pub(crate) async fn delete(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<StatusCode, ApiError> {
    let control = edge.control();
    let deleting = control.delete_webhook(&authorized.caller, read_id(&id)?);
    deleting.await?;
    // The contract's answer to this one is not 204.
    Ok(StatusCode::OK)
}

fn render(record: &WebhookRecord) -> rest::Webhook {
    rest::Webhook {
        id: record.id.to_string(),
        team_id: record.team.to_string(),
        name: record.name.clone(),
        url: record.url.clone(),
        // In the order of a life, whatever order they were given in.
        events: EventKind::ALL
            .iter()
            .filter(|kind| record.kinds.contains(kind))
            .map(|kind| format!("{EVENT_TYPE_PREFIX}{}", kind.as_str()))
            .collect(),
        enabled: record.is_enabled,
        created_at: record.created_at,
        updated_at: record.updated_at,
    }
}

fn name(text: String) -> Result<String, ApiError> {
    let is_name = !text.trim().is_empty()
        && text.len() <= LONGEST_NAME
        && !text.chars().any(char::is_control);
    if !is_name {
        return Err(invalid("name has 1 to 256 bytes and no control characters"));
    }
    Ok(text)
}

fn url(edge: &Edge, text: &str) -> Result<String, ApiError> {
    edge.webhook_destinations().check(text).map_err(|error| {
        ApiError::bad_request(
            "webhook_url_invalid",
            format!("Invalid webhook request: {error}"),
        )
    })
}

fn kinds(types: &[String]) -> Result<Vec<EventKind>, ApiError> {
    if types.is_empty() {
        return Err(invalid("events has at least one type"));
    }
    types
        .iter()
        .map(|text| event_kind("events", text))
        .collect()
}

fn secret(text: String) -> Result<SecretValue, ApiError> {
    if text.len() > LONGEST_SECRET {
        return Err(invalid("signatureSecret is longer than 1024 bytes"));
    }
    SecretValue::new(text)
        .map_err(|_error| invalid("signatureSecret is empty or has control characters"))
}

/// Reads an id. Nothing has one of another form.
pub(crate) fn read_id(text: &str) -> Result<WebhookId, ApiError> {
    text.parse().map_err(|_error| not_found())
}

fn invalid(why: &str) -> ApiError {
    ApiError::bad_request(
        "validation_error",
        format!("Invalid webhook request: {why}"),
    )
}

fn not_found() -> ApiError {
    ApiError::not_found("webhook_not_found", "Webhook not found")
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NotFound => not_found(),
            WebhookError::TooMany { limit } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "webhook_limit_reached",
                format!("Webhook limit reached: your team has {limit}; delete one"),
            )
            .retry(Retry::Never),
            WebhookError::Vault(_) => {
                tracing::error!(error = %Chain(&error), "the vault cannot be used");
                Self::unavailable(
                    "webhooks_unavailable",
                    "Webhooks are not available: the server cannot use its key for secrets; its operator finds the reason in the log",
                )
                .retry(Retry::Never)
            }
            WebhookError::Record(error) => error.into(),
        }
    }
}
