//! Versions of templates, beyond what the contract tells of them: `/skep/templates/…`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_types::TemplateReference;
use skep_wire::rest;

use super::start_build::build_id;
use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render_version;
use crate::router::Edge;
use crate::sandbox_path::{PathSegment, PathSegments};

/// `GET /skep/templates/{id}`: the version that a reference means.
pub(crate) async fn get(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
) -> Result<Json<rest::TemplateVersion>, ApiError> {
    let reference: TemplateReference = text.parse()?;
    let control = edge.control();
    let detail = control
        .version_detail(&authorized.caller, &reference)
        .await?;
    Ok(Json(render_version::detail(detail)))
}

/// `GET /skep/templates/{id}/builds`: all versions, with what the tags mean.
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
) -> Result<Json<rest::TemplateVersions>, ApiError> {
    let reference: TemplateReference = text.parse()?;
    let control = edge.control();
    let history = control
        .version_history(&authorized.caller, &reference)
        .await?;
    Ok(Json(render_version::history(&history)))
}

/// `GET /skep/templates/{id}/files`: files of the layers above the lowest `below`.
pub(crate) async fn files(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
    params: Params,
) -> Result<Json<rest::VersionFiles>, ApiError> {
    let reference: TemplateReference = text.parse()?;
    let below = params.number("below", 0..=10_000)?.unwrap_or_default();
    let below = usize::try_from(below).unwrap_or_default();
    let control = edge.control();
    let files = control
        .version_files(&authorized.caller, &reference, below)
        .await?;
    Ok(Json(render_version::files(files)))
}

/// `DELETE /skep/templates/{id}/builds/{build}`: forgets a version that nothing uses.
pub(crate) async fn delete(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegments(template, build): PathSegments,
) -> Result<StatusCode, ApiError> {
    let (template, build) = (template.parse()?, build_id(&build)?);
    let control = edge.control();
    let deleting = control.delete_version(&authorized.caller, &template, build);
    deleting.await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /skep/templates/{id}/builds/{build}/cancel`: ends a build that waits or runs.
pub(crate) async fn cancel(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegments(template, build): PathSegments,
) -> Result<StatusCode, ApiError> {
    let (template, build) = (template.parse()?, build_id(&build)?);
    let control = edge.control();
    let cancelling = control.cancel_build(&authorized.caller, &template, build);
    cancelling.await?;
    Ok(StatusCode::NO_CONTENT)
}
