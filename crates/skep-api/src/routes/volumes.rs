//! `/volumes`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{NewVolume, VolumeRecord, VolumeRequestError};
use skep_types::VolumeId;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

/// `GET /volumes`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
) -> Result<Json<Vec<rest::Volume>>, ApiError> {
    let volumes = edge.control().volumes(&authorized.caller).await?;
    Ok(Json(volumes.iter().map(render).collect()))
}

/// `POST /volumes`
pub(crate) async fn create(
    authorized: Authorized,
    State(edge): State<Edge>,
    Body(body): Body<rest::NewVolume>,
) -> Result<(StatusCode, Json<rest::VolumeAndToken>), ApiError> {
    let options = body.skep.unwrap_or_default();
    let places = [Some(body.name.as_str()), options.source.as_deref()];
    if let Some(place) = (places.into_iter().flatten()).find(|place| place.contains("://")) {
        return Err(ApiError::elsewhere(place));
    }
    let name = body
        .name
        .parse()
        .map_err(|_| ApiError::bad_request("invalid_volume_name", "Invalid volume name"))?;
    let request = NewVolume {
        name,
        mebibytes: options.size_mb,
        source: options.source,
        read_only: options.read_only,
    };
    let made = edge
        .control()
        .create_volume(&authorized.caller, request)
        .await?;
    Ok((StatusCode::CREATED, Json(with_token(&edge, &made))))
}

/// `GET /volumes/{id}`
pub(crate) async fn get(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<Json<rest::VolumeAndToken>, ApiError> {
    let control = edge.control();
    let volume = control.volume(&authorized.caller, parse(&id)?).await?;
    let mut shown = with_token(&edge, &volume);
    let usage = control.volume_usage(volume.id).await?;
    let users = control.volume_users(&volume).await;
    let detail = &mut shown.volume.skep;
    detail.used_bytes = Some(usage.used);
    detail.used_by = Some(users.iter().map(ToString::to_string).collect());
    Ok(Json(shown))
}

/// `DELETE /volumes/{id}`
pub(crate) async fn delete(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(id): PathSegment,
) -> Result<StatusCode, ApiError> {
    let control = edge.control();
    control
        .delete_volume(&authorized.caller, parse(&id)?)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Answers text that is no id like a volume that is not there, because the clients know what to make of that.
fn parse(id: &str) -> Result<VolumeId, ApiError> {
    id.parse().map_err(|_| VolumeRequestError::NotFound.into())
}

fn with_token(edge: &Edge, volume: &VolumeRecord) -> rest::VolumeAndToken {
    rest::VolumeAndToken {
        volume: render(volume),
        token: edge.control().volume_token(volume.id).reveal().to_owned(),
    }
}

fn render(volume: &VolumeRecord) -> rest::Volume {
    rest::Volume {
        volume_id: volume.id.to_string(),
        name: volume.name.to_string(),
        skep: rest::VolumeDetail {
            size_mb: volume.mebibytes,
            read_only: volume.read_only,
            source: volume.source.map(|source| source.to_string()),
            created_at: volume.created_at,
            used_bytes: None,
            used_by: None,
        },
    }
}
