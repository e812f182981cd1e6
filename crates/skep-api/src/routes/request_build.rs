//! `POST /v3/templates` and `POST /v2/templates`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ResourceRequest, Tag, VersionName, VersionRequest};
use skep_types::TemplateReference;
use skep_wire::rest;

use super::list_templates::check_team;
use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::render_template;
use crate::router::Edge;

/// Asks for a build of a template, which the client starts when it has uploaded its files. Older
/// clients say `alias` for the name.
pub(crate) async fn request_build(
    authorized: Authorized,
    State(edge): State<Edge>,
    Body(body): Body<rest::NewTemplate>,
) -> Result<(StatusCode, Json<rest::RequestedTemplate>), ApiError> {
    let caller = &authorized.caller;
    check_team(caller, body.team_id.as_deref())?;
    let request = VersionRequest {
        name: name(&body, &authorized)?,
        resources: ResourceRequest {
            cpus: number("cpuCount", body.cpu_count, 1)?,
            memory_mib: number("memoryMB", body.memory_mb, 128)?,
            free_disk_mib: number("minFreeDiskMb", body.min_free_disk_mb, 0)?,
        },
    };
    let requested = edge.control().request_version(caller, request).await?;
    let body = render_template::requested(&requested);
    Ok((StatusCode::ACCEPTED, Json(body)))
}

fn name(body: &rest::NewTemplate, authorized: &Authorized) -> Result<VersionName, ApiError> {
    let text = body
        .name
        .as_ref()
        .or(body.alias.as_ref())
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
        .ok_or_else(|| ApiError::bad_request("name_required", "Name is required"))?;
    let reference: TemplateReference = text
        .parse()
        .map_err(|error| ApiError::bad_request("invalid_name", format!("Invalid name: {error}")))?;
    let mut tags = body
        .tags
        .iter()
        .flatten()
        .map(|tag| tag.parse())
        .collect::<Result<Vec<Tag>, _>>()?;
    // A reference does not tell `name:default` from `name`, and beside other tags they differ.
    if text.to_lowercase().ends_with(":default") {
        tags.insert(0, "default".parse()?);
    }
    let name = VersionName::new(reference, tags, &authorized.caller.team)?;
    Ok(name)
}

fn number(key: &str, value: Option<i64>, least: i64) -> Result<Option<u32>, ApiError> {
    let Some(value) = value else {
        return Ok(None);
    };
    let number = u32::try_from(value).ok().filter(|_| value >= least);
    number.map(Some).ok_or_else(|| {
        ApiError::validation(format_args!("`{key}` must be a number from {least} up"))
    })
}
