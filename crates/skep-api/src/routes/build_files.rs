//! `GET /templates/{id}/files/{hash}` and `PUT /_upload/{link}`

use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, TryStreamExt as _};
use skep_control::{Upload, UploadLink};
use skep_types::{Authenticated, FilesHash};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::{PathSegment, PathSegments};

/// `GET /templates/{id}/files/{hash}`: there is always an address, because clients may want to
/// upload again what is there.
pub(crate) async fn link(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegments(template, hash): PathSegments,
    headers: HeaderMap,
    uri: Uri,
) -> Result<(StatusCode, Json<rest::FileUpload>), ApiError> {
    let files: FilesHash = hash
        .parse()
        .map_err(|_| ApiError::bad_request("invalid_files_hash", "Invalid files hash"))?;
    let control = edge.control();
    let template = template.parse()?;
    let found = control
        .file_link(&authorized.caller, &template, files)
        .await?;
    let address = address(&edge, &headers, &uri)?;
    let upload = rest::FileUpload {
        present: found.is_present,
        url: format!("{address}/_upload/{}", found.link),
    };
    Ok((StatusCode::CREATED, Json(upload)))
}

/// `PUT /_upload/{link}`: whoever has the link may upload, with or without a key.
pub(crate) async fn upload(
    State(edge): State<Edge>,
    PathSegment(link): PathSegment,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let link: UploadLink = link.parse()?;
    let control = edge.control();
    control.check_link(&link)?;
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let bytes = body.into_data_stream().map_err(io::Error::other);
    let upload = Upload {
        announced,
        body: bytes.boxed(),
    };
    control.receive_files(&link, upload).await?;
    Ok((StatusCode::OK, Extension(Authenticated)).into_response())
}

/// The address by which the client reaches this server: others may not reach it by the one that it
/// has of itself.
fn address(edge: &Edge, headers: &HeaderMap, uri: &Uri) -> Result<String, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("x-forwarded-host")
        .or(text("host"))
        .or(uri.authority().map(|authority| authority.as_str()))
        .ok_or_else(|| ApiError::validation("the request has no host"))?;
    let own = if edge.is_secure() { "https" } else { "http" };
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        Some("http") => "http",
        Some(_) | None => own,
    };
    Ok(format!("{scheme}://{host}"))
}
