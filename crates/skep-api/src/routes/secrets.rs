//! `/secrets`

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use skep_control::{SecretError, SecretRecord, SecretValue};
use skep_telemetry::Chain;
use skep_types::{SecretMetadata, SecretName, SecretSelector};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::RawBody;
use crate::error::{ApiError, Retry};
use crate::params::Params;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

const PAGE: u32 = 100;

/// `POST /secrets`
pub(crate) async fn create(
    authorized: Authorized,
    State(edge): State<Edge>,
    body: RawBody,
) -> Result<(StatusCode, Json<rest::Secret>), ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    // What is wrong with it is not repeated: it may be the value.
    let body: rest::NewSecret = body
        .parse()
        .map_err(|_told| invalid("name and value are texts"))?;
    let value = value(body.value)?;
    let name: SecretName = body.name.parse().map_err(|_error| {
        invalid("a name has 1 to 128 letters, digits, - and _, and does not begin with sec_")
    })?;
    let metadata = metadata(body.metadata.unwrap_or_default())?;
    let control = edge.control();
    let made = control.create_secret(caller, name, value, metadata).await?;
    Ok((StatusCode::CREATED, Json(render(&made))))
}

/// `GET /secrets`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<(HeaderMap, Json<Vec<rest::Secret>>), ApiError> {
    let after = params.text("nextToken").map(read_token).transpose()?;
    let limit = params.page_size(PAGE)?;
    let control = edge.control();
    let (found, next) = control.secrets(&authorized.caller, after, limit).await?;
    let mut headers = HeaderMap::new();
    if let Some(next) = next {
        let token = HeaderValue::try_from(next.as_str());
        headers.insert("x-next-token", token.expect("names are letters and digits"));
    }
    Ok((headers, Json(found.iter().map(render).collect())))
}

/// `GET /secrets/{selector}`
pub(crate) async fn get(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(selector): PathSegment,
) -> Result<Json<rest::Secret>, ApiError> {
    let selector = read_selector(&selector)?;
    let control = edge.control();
    let found = control.find_secret(&authorized.caller, selector).await?;
    Ok(Json(render(&found)))
}

/// `POST /secrets/{selector}`
pub(crate) async fn update(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(selector): PathSegment,
    body: RawBody,
) -> Result<Json<rest::Secret>, ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let selector = read_selector(&selector)?;
    let body: rest::UpdateSecret = body.parse().map_err(|_told| invalid("value is a text"))?;
    let value = value(body.value)?;
    let metadata = body.metadata.map(metadata).transpose()?;
    let control = edge.control();
    let changed = control.update_secret(caller, selector, value, metadata);
    Ok(Json(render(&changed.await?)))
}

/// `DELETE /secrets/{selector}`
pub(crate) async fn delete(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(selector): PathSegment,
) -> Result<StatusCode, ApiError> {
    let selector = read_selector(&selector)?;
    let control = edge.control();
    control.delete_secret(&authorized.caller, selector).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Every other path below `/secrets/`: the Python client puts names there as they are.
pub(crate) async fn nowhere(_authorized: Authorized) -> ApiError {
    not_found()
}

fn render(record: &SecretRecord) -> rest::Secret {
    rest::Secret {
        secret_id: record.id.to_string(),
        name: record.name.to_string(),
        current_version: record.version,
        metadata: record.metadata.pairs().clone(),
        created_at: record.created_at,
        updated_at: record.updated_at,
    }
}

fn value(text: String) -> Result<SecretValue, ApiError> {
    SecretValue::new(text).map_err(|error| invalid(&error.to_string()))
}

fn metadata(pairs: BTreeMap<String, String>) -> Result<SecretMetadata, ApiError> {
    SecretMetadata::new(pairs).map_err(|_error| {
        invalid(
            "metadata has at most 32 entries, keys of 128 bytes, values of 1024 and 8192 together",
        )
    })
}

/// Reads what a path names. Nothing has a name of another form, but an id of another form is wrong.
fn read_selector(text: &str) -> Result<SecretSelector, ApiError> {
    text.parse().map_err(|_error| {
        if text.to_ascii_lowercase().starts_with("sec_") {
            invalid("it is not the id of a secret")
        } else {
            not_found()
        }
    })
}

fn read_token(text: &str) -> Result<SecretName, ApiError> {
    let name = text.parse();
    name.map_err(|_error| invalid("nextToken is not one of this list"))
}

fn invalid(why: &str) -> ApiError {
    ApiError::bad_request(
        "validation_error",
        format!("Invalid secrets request: {why}"),
    )
}

fn not_found() -> ApiError {
    ApiError::not_found("secret_not_found", "Secret not found")
}

impl From<SecretError> for ApiError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::NotFound => not_found(),
            SecretError::Taken => Self::new(
                StatusCode::CONFLICT,
                "secret_exists",
                "Secret cannot be modified in its current state: there is one of this name \
                 already, which an update changes",
            ),
            SecretError::TooMany { limit } => Self::new(
                StatusCode::CONFLICT,
                "secret_limit_reached",
                format!("you have reached the limit of {limit} secrets; delete one"),
            ),
            SecretError::Key(_)
            | SecretError::Sealed { .. }
            | SecretError::Sealing(_)
            | SecretError::BrokeOff => {
                tracing::error!(error = %Chain(&error), "the vault cannot be used");
                Self::unavailable(
                    "secrets_unavailable",
                    "the server cannot use its key for secrets; its operator finds the reason in the log",
                )
                .retry(Retry::Never)
            }
            SecretError::Record(error) => error.into(),
        }
    }
}
