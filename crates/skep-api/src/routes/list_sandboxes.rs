//! `GET /sandboxes` and `GET /v2/sandboxes`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use skep_control::{Cursor, ListQuery, SortOrder, States};
use skep_types::TemplateReference;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::router::Edge;
use crate::{metadata_filter, render};

const PAGE: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Running,
    Paused,
}

/// `GET /sandboxes`: those that run, the newest first, all on one page.
pub(crate) async fn v1(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<Json<Vec<rest::ListedSandbox>>, ApiError> {
    let mut query = ListQuery::everything();
    query.states.paused = false;
    query.metadata = metadata(&params)?;
    let page = edge.control().list(&authorized.caller, &query).await;
    Ok(Json(
        page.items.iter().map(render::listed_sandbox).collect(),
    ))
}

/// `GET /v2/sandboxes`
pub(crate) async fn v2(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<(HeaderMap, Json<Vec<rest::ListedSandbox>>), ApiError> {
    let query = read(&params)?;
    let page = edge.control().list(&authorized.caller, &query).await;
    let mut headers = HeaderMap::new();
    if let Some(next) = &page.next {
        headers.insert("x-next-token", token(next, query.order));
    }
    if query.states.running {
        headers.insert("x-total-running", HeaderValue::from(page.running));
    }
    let items = page.items.iter().map(render::listed_sandbox).collect();
    Ok((headers, Json(items)))
}

pub(super) fn token(cursor: &Cursor, order: SortOrder) -> HeaderValue {
    HeaderValue::try_from(cursor.encode(order)).expect("base64 is made of visible characters")
}

fn read(params: &Params) -> Result<ListQuery, ApiError> {
    let orders = [
        ("desc", SortOrder::NewestFirst),
        ("asc", SortOrder::OldestFirst),
    ];
    let order = params
        .word("order", &orders)?
        .unwrap_or(SortOrder::NewestFirst);
    let after = params.text("nextToken");
    Ok(ListQuery {
        metadata: metadata(params)?,
        states: states(params)?,
        order,
        started_after: params.time("startedAfter")?,
        template: template(params)?,
        limit: usize::try_from(params.page_size(PAGE)?).ok(),
        after: after.map(|text| Cursor::decode(text, order)).transpose()?,
    })
}

fn metadata(params: &Params) -> Result<Vec<(String, String)>, ApiError> {
    let text = params.text("metadata").unwrap_or_default();
    metadata_filter::decode(text)
        .map_err(|_malformed| ApiError::bad_request("invalid_metadata", "Error parsing metadata"))
}

fn states(params: &Params) -> Result<States, ApiError> {
    let words = [("running", Shown::Running), ("paused", Shown::Paused)];
    let chosen = params.words("state", &words)?;
    let shown = |state| chosen.is_empty() || chosen.contains(&state);
    Ok(States {
        running: shown(Shown::Running),
        paused: shown(Shown::Paused),
    })
}

fn template(params: &Params) -> Result<Option<TemplateReference>, ApiError> {
    let Some(text) = params.text("template") else {
        return Ok(None);
    };
    let reference: TemplateReference = text.parse()?;
    if text.contains(':') {
        let message = format!(
            "Invalid template: '{reference}' has a tag, and sandboxes are not listed by tag"
        );
        return Err(ApiError::bad_request("invalid_template", message));
    }
    Ok(Some(reference))
}
