//! `POST /sandboxes/{id}/snapshots` and `GET /snapshots`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use skep_control::{SnapshotCursor, SnapshotName, SnapshotOrder, SnapshotQuery};
use skep_types::{SandboxId, TemplateReference};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

const PAGE: u32 = 100;

/// `POST /sandboxes/{id}/snapshots`
pub(crate) async fn create(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::NewSnapshot>,
) -> Result<(StatusCode, Json<rest::Snapshot>), ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let id = path.id()?;
    let name = body.name.as_deref().map(|text| name(text, &authorized));
    let order = SnapshotOrder {
        name: name.transpose()?,
        kind: render::image_kind(body.memory),
    };
    let record = edge.control().snapshot(caller, &id, order).await?;
    let snapshot = render::snapshot(&record, &caller.team.slug);
    Ok((StatusCode::CREATED, Json(snapshot)))
}

fn name(text: &str, authorized: &Authorized) -> Result<SnapshotName, ApiError> {
    let invalid = |error: &dyn std::fmt::Display| {
        ApiError::bad_request("invalid_name", format!("Invalid name: {error}"))
    };
    let reference: TemplateReference = text.parse().map_err(|error| invalid(&error))?;
    SnapshotName::new(reference, &authorized.caller.team).map_err(|error| invalid(&error))
}

/// `GET /snapshots`
pub(crate) async fn list(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<(HeaderMap, Json<Vec<rest::Snapshot>>), ApiError> {
    let caller = &authorized.caller;
    let sandbox = params.text("sandboxID").map(sandbox_id);
    let named = params.text("name").map(str::parse::<TemplateReference>);
    let after = params.text("nextToken").map(SnapshotCursor::decode);
    let (Ok(sandbox), Ok(named)) = (sandbox.transpose(), named.transpose()) else {
        // Nothing has such a name.
        return Ok((HeaderMap::new(), Json(Vec::new())));
    };
    let query = SnapshotQuery {
        sandbox,
        named,
        limit: params.page_size(PAGE)?,
        after: after.transpose()?,
    };
    let page = edge.control().snapshots(caller, query).await?;
    let mut headers = HeaderMap::new();
    if let Some(next) = &page.next {
        let token = HeaderValue::try_from(next.encode());
        headers.insert(
            "x-next-token",
            token.expect("base64 is made of visible characters"),
        );
    }
    let slug = &caller.team.slug;
    let items = page
        .items
        .iter()
        .map(|record| render::snapshot(record, slug));
    Ok((headers, Json(items.collect())))
}

fn sandbox_id(text: &str) -> Result<SandboxId, ApiError> {
    SandboxPath::parse(text)?.id()
}
