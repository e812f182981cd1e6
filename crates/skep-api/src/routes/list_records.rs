//! `GET /skep/sandboxes`, which is ours alone

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use skep_control::{Cursor, RecordQuery, SortOrder};
use skep_wire::rest;

use super::list_sandboxes::token;
use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::router::Edge;

/// The team's sandboxes from the database, the newest first; with `all=true` the ended ones too,
/// why they ended and what they used. Pages as in `GET /v2/sandboxes`.
pub(crate) async fn list_records(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<(HeaderMap, Json<Vec<rest::SandboxRecord>>), ApiError> {
    let order = SortOrder::NewestFirst;
    let after = params.text("nextToken");
    let ended = params.word("all", &[("true", true), ("false", false)])?;
    let query = RecordQuery {
        ended: ended.unwrap_or(false),
        limit: params.page_size(100)?,
        after: after.map(|text| Cursor::decode(text, order)).transpose()?,
    };
    let page = edge.control().records(&authorized.caller, query).await?;
    let mut headers = HeaderMap::new();
    if let Some(next) = &page.next {
        headers.insert("x-next-token", token(next, order));
    }
    let render = |(record, phase): &(_, _)| render::record(record, *phase);
    Ok((headers, Json(page.items.iter().map(render).collect())))
}
