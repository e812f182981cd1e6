//! `POST /templates/tags`, `DELETE /templates/tags` and `GET /templates/{id}/tags`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ListedTag, Tag};
use skep_types::TemplateReference;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

/// `POST /templates/tags`
pub(crate) async fn assign(
    authorized: Authorized,
    State(edge): State<Edge>,
    Body(body): Body<rest::AssignTags>,
) -> Result<(StatusCode, Json<rest::AssignedTags>), ApiError> {
    let tags = read_tags(&body.tags)?;
    let target: TemplateReference = body.target.parse()?;
    let control = edge.control();
    let build = control
        .assign_tags(&authorized.caller, &target, &tags)
        .await?;
    let assigned = rest::AssignedTags {
        tags: tags.iter().map(ToString::to_string).collect(),
        build_id: build.to_string(),
    };
    Ok((StatusCode::CREATED, Json(assigned)))
}

/// `DELETE /templates/tags`
pub(crate) async fn remove(
    authorized: Authorized,
    State(edge): State<Edge>,
    Body(body): Body<rest::RemoveTags>,
) -> Result<StatusCode, ApiError> {
    let tags = read_tags(&body.tags)?;
    if tags.iter().any(Tag::is_usual) {
        return Err(ApiError::bad_request(
            "default_tag",
            "Cannot delete the 'default' tag",
        ));
    }
    if body.name.contains(':') {
        return Err(ApiError::bad_request(
            "invalid_name",
            "Invalid name: tags are removed from a template, which is named without one",
        ));
    }
    let name: TemplateReference = body.name.parse()?;
    let control = edge.control();
    control
        .remove_tags(&authorized.caller, &name, &tags)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /templates/{id}/tags`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
) -> Result<Json<Vec<rest::TemplateTag>>, ApiError> {
    let reference = text.parse()?;
    let tags = edge.control().tags(&authorized.caller, &reference).await?;
    let render = |tag: ListedTag| rest::TemplateTag {
        tag: tag.tag,
        build_id: tag.build,
        created_at: tag.at,
    };
    Ok(Json(tags.into_iter().map(render).collect()))
}

fn read_tags(texts: &[String]) -> Result<Vec<Tag>, ApiError> {
    let mut tags: Vec<Tag> = Vec::new();
    for text in texts {
        let tag = text.parse()?;
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    if tags.is_empty() {
        let message = "At least one tag is required";
        return Err(ApiError::bad_request("invalid_tag", message));
    }
    Ok(tags)
}
