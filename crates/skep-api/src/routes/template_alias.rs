//! `GET /templates/aliases/{alias}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::ResolveError;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

/// Answers for a name that is taken or free: 200 if by a template the team can use, 403 if by
/// another's, 404 if by none.
pub(crate) async fn template_alias(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(alias): PathSegment,
) -> Result<Json<rest::TemplateAlias>, ApiError> {
    let reference = alias.parse()?;
    let caller = &authorized.caller;
    match edge.control().find_template(caller, &reference).await {
        Ok(template) => Ok(Json(rest::TemplateAlias {
            template_id: template.id.to_string(),
            public: template.public,
        })),
        Err(ResolveError::NoAccess(_)) => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "template_forbidden",
            "You don't have access to this template alias",
        )),
        Err(error) => Err(error.into()),
    }
}
