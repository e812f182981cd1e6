//! `/api-keys`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

const LONGEST_NAME: usize = 128;

/// `GET /api-keys`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
) -> Result<Json<Vec<rest::ApiKey>>, ApiError> {
    let keys = edge.control().list_keys(&authorized.caller).await?;
    Ok(Json(keys.iter().map(render::api_key).collect()))
}

/// `POST /api-keys`
pub(crate) async fn create(
    authorized: Authorized,
    State(edge): State<Edge>,
    Body(body): Body<rest::ApiKeyName>,
) -> Result<(StatusCode, Json<rest::CreatedApiKey>), ApiError> {
    authorized.caller.may_change()?;
    let name = name(body)?;
    let made = edge.control().create_key(&authorized.caller, name).await?;
    let created = rest::CreatedApiKey {
        key: made.key.reveal().to_owned(),
        listed: render::api_key(&made.record),
    };
    Ok((StatusCode::CREATED, Json(created)))
}

/// `PATCH /api-keys/{id}`
pub(crate) async fn rename(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
    Body(body): Body<rest::ApiKeyName>,
) -> Result<StatusCode, ApiError> {
    authorized.caller.may_change()?;
    let name = name(body)?;
    edge.control()
        .rename_key(&authorized.caller, id, name)
        .await?;
    Ok(StatusCode::ACCEPTED)
}

/// `DELETE /api-keys/{id}`
pub(crate) async fn revoke(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<StatusCode, ApiError> {
    edge.control().revoke_key(&authorized.caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn name(body: rest::ApiKeyName) -> Result<String, ApiError> {
    let name = body.name.trim();
    if (1..=LONGEST_NAME).contains(&name.chars().count()) {
        return Ok(name.to_owned());
    }
    Err(ApiError::validation("name must have 1 to 128 characters"))
}
