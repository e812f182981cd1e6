//! `GET`, `PATCH` and `DELETE /templates/{id}`, and `PATCH /v2/templates/{id}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ResolveError, TemplateRecord, VersionError};
use skep_types::TemplateReference;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::params::Params;
use crate::render_template;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

/// `GET /templates/{id}`: the template with its builds, which are on one page.
pub(crate) async fn get(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
    params: Params,
) -> Result<Json<rest::TemplateWithBuilds>, ApiError> {
    params.page_size(100)?;
    let reference = text.parse()?;
    let control = edge.control();
    let history = control
        .template_history(&authorized.caller, &reference)
        .await?;
    Ok(Json(render_template::history(&history)))
}

/// `PATCH /v2/templates/{id}`
pub(crate) async fn update(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
    OptionalBody(body): OptionalBody<rest::UpdateTemplate>,
) -> Result<Json<rest::UpdatedTemplate>, ApiError> {
    let template = publish(&authorized, &edge, &text, &body).await?;
    Ok(Json(rest::UpdatedTemplate {
        names: vec![render_template::in_namespace(
            &template.slug,
            &template.name,
        )],
    }))
}

/// `PATCH /templates/{id}`, of which the answer is `null`. Others use the template by its name in
/// the namespace of its team: bare names are the operator's to give.
pub(crate) async fn update_v1(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
    OptionalBody(body): OptionalBody<rest::UpdateTemplate>,
) -> Result<Json<()>, ApiError> {
    publish(&authorized, &edge, &text, &body).await?;
    Ok(Json(()))
}

async fn publish(
    authorized: &Authorized,
    edge: &Edge,
    text: &str,
    body: &rest::UpdateTemplate,
) -> Result<TemplateRecord, ApiError> {
    let reference = text.parse()?;
    let control = edge.control();
    let publishing = control.publish_template(&authorized.caller, &reference, body.public);
    Ok(publishing.await?)
}

/// `DELETE /templates/{id}`: forgets a template with all its versions, or a snapshot with all its
/// tags.
pub(crate) async fn delete(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(text): PathSegment,
) -> Result<StatusCode, ApiError> {
    let reference: TemplateReference = text.parse()?;
    let control = edge.control();
    match control
        .delete_template(&authorized.caller, &reference)
        .await
    {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        // A name in the namespace of another team means nothing to this one.
        Err(VersionError::Resolve(ResolveError::NoAccess(reference)))
            if reference.namespace.is_some() =>
        {
            Err(ResolveError::not_found(&reference, []).into())
        }
        Err(error) => Err(error.into()),
    }
}
