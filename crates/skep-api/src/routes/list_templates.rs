//! `GET /templates` and `GET /v2/templates`

use axum::Json;
use axum::extract::State;
use skep_control::ListedTemplate;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::router::Edge;

/// `GET /templates`
pub(crate) async fn v1(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<Json<Vec<rest::Template>>, ApiError> {
    list(&authorized, &edge, &params).await
}

/// `GET /v2/templates`: the newest first. A server has few, so they are on one page.
pub(crate) async fn v2(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<Json<Vec<rest::Template>>, ApiError> {
    params.page_size(100)?;
    list(&authorized, &edge, &params).await
}

async fn list(
    authorized: &Authorized,
    edge: &Edge,
    params: &Params,
) -> Result<Json<Vec<rest::Template>>, ApiError> {
    let caller = &authorized.caller;
    let team = params.text("teamID");
    if team.is_some_and(|team| team != caller.team.id.as_str()) {
        return Err(ApiError::bad_request(
            "team_mismatch",
            "Team ID param mismatch with the API key",
        ));
    }
    let mut templates = edge.control().templates(caller).await?;
    templates.sort_by_key(|template| std::cmp::Reverse(template.info.created_at));
    let render = |template: &ListedTemplate| render::template(template, &caller.team.slug);
    Ok(Json(templates.iter().map(render).collect()))
}
