//! `GET /templates` and `GET /v2/templates`

use axum::Json;
use axum::extract::State;
use skep_control::Caller;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render_template;
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
    check_team(caller, params.text("teamID"))?;
    let mut templates = edge.control().templates(caller).await?;
    templates.sort_by_key(|template| std::cmp::Reverse(template.info.created_at));
    let rendered = templates.iter().map(render_template::template);
    Ok(Json(rendered.collect()))
}

/// Checks that a team that a request names is the one of its key.
pub(super) fn check_team(caller: &Caller, team: Option<&str>) -> Result<(), ApiError> {
    if team.is_some_and(|team| team != caller.team.id.as_str()) {
        return Err(ApiError::bad_request(
            "team_mismatch",
            "Team ID param mismatch with the API key",
        ));
    }
    Ok(())
}
