//! `/volumecontent`: the files of a volume, for whoever has its token.

mod error;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, TryStreamExt as _};
use skep_control::{
    Attributes, EntryKind, Ownership, QuotaGuard, Upload, VolumeEntry, VolumeFiles, VolumePath,
    WriteMode,
};
use skep_types::Authenticated;
use skep_wire::rest;
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use crate::body::RawBody;
use crate::params::Params;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;
use error::ContentFailure;

/// Owner of what nobody gave another one: `user` of a sandbox.
const OWNER: u32 = 1000;
const FILE_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o777;
const LARGEST_MODE: u32 = 0o777;
/// Ids that a sandbox has.
const LARGEST_ID: u32 = 65_535;
const DEEPEST: u32 = 10;
/// Bytes of a download that are held at a time.
const DOWNLOAD_BUFFER: usize = 256 << 10;

type Answer<T> = Result<(StatusCode, Extension<Authenticated>, Json<T>), ContentFailure>;

/// The files of a volume and a path in it, for a caller with the volume's token. The first argument
/// of every handler.
#[derive(Debug)]
pub(crate) struct Opened {
    files: VolumeFiles,
    path: VolumePath,
    params: Params,
    /// Guard that counts it among the requests of its team, until it was handled.
    quota: QuotaGuard,
}

impl FromRequestParts<Edge> for Opened {
    type Rejection = ContentFailure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, ContentFailure> {
        let PathSegment(id) = PathSegment::from_request_parts(parts, edge).await?;
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let (Ok(id), Some(token)) = (id.parse(), token) else {
            return Err(ContentFailure::unauthorized());
        };
        let files = edge.control().open_volume(id, token).await?;
        let quota = edge.begin_request(&files.volume().team)?;
        let params = Params::from_request_parts(parts, edge).await?;
        let path = params.text("path").unwrap_or_default().parse()?;
        Ok(Self {
            files,
            path,
            params,
            quota,
        })
    }
}

impl Opened {
    fn number(&self, name: &'static str, largest: u32) -> Result<Option<u32>, ContentFailure> {
        let number = self.params.number(name, 0..=i64::from(largest))?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    fn ownership(&self, mode: u32) -> Result<Ownership, ContentFailure> {
        Ok(Ownership {
            uid: self.number("uid", LARGEST_ID)?.unwrap_or(OWNER),
            gid: self.number("gid", LARGEST_ID)?.unwrap_or(OWNER),
            mode: self.number("mode", LARGEST_MODE)?.unwrap_or(mode),
        })
    }

    fn force(&self) -> Result<bool, ContentFailure> {
        let words = [("true", true), ("1", true), ("false", false), ("0", false)];
        Ok(self.params.word("force", &words)?.unwrap_or(false))
    }
}

/// `GET /volumecontent/{id}/path`
pub(crate) async fn stat(opened: Opened) -> Answer<rest::VolumeEntry> {
    let entry = opened.files.stat(opened.path).await?;
    Ok(answer(StatusCode::OK, render(entry)))
}

/// `PATCH /volumecontent/{id}/path`
pub(crate) async fn change(opened: Opened, body: RawBody) -> Answer<rest::VolumeEntry> {
    let change: rest::VolumeEntryChange = body.parse_or_default()?;
    let is_id = |id: Option<u32>| id.is_none_or(|id| id <= LARGEST_ID);
    if !is_id(change.uid) || !is_id(change.gid) {
        return Err(ContentFailure::invalid("uid and gid are 0 to 65535"));
    }
    if change.mode.is_some_and(|mode| mode > LARGEST_MODE) {
        return Err(ContentFailure::invalid("mode is 0 to 511 (0o777)"));
    }
    let attributes = Attributes {
        uid: change.uid,
        gid: change.gid,
        mode: change.mode,
    };
    let entry = opened.files.set_attributes(opened.path, attributes).await?;
    Ok(answer(StatusCode::OK, render(entry)))
}

/// `DELETE /volumecontent/{id}/path`
pub(crate) async fn remove(opened: Opened) -> Result<Response, ContentFailure> {
    opened.files.remove(opened.path).await?;
    Ok((StatusCode::NO_CONTENT, Extension(Authenticated)).into_response())
}

/// `GET /volumecontent/{id}/dir`
pub(crate) async fn list(opened: Opened) -> Answer<Vec<rest::VolumeEntry>> {
    let depth = opened.number("depth", u32::MAX)?.unwrap_or_default().max(1);
    if depth > DEEPEST {
        return Err(ContentFailure::too_deep(DEEPEST));
    }
    let entries = opened
        .files
        .list(opened.path, depth)
        .await?
        .into_iter()
        .map(render)
        .collect();
    Ok(answer(StatusCode::OK, entries))
}

/// `POST /volumecontent/{id}/dir`
pub(crate) async fn make_directory(opened: Opened) -> Answer<rest::VolumeEntry> {
    let (owner, force) = (opened.ownership(DIRECTORY_MODE)?, opened.force()?);
    let entry = opened.files.make_directory(opened.path, owner, force);
    Ok(answer(StatusCode::CREATED, render(entry.await?)))
}

/// `GET /volumecontent/{id}/file`
pub(crate) async fn read(opened: Opened) -> Result<Response, ContentFailure> {
    let quota = opened.quota;
    let found = opened.files.read(opened.path).await?;
    // Exactly what was announced, also if somebody writes to it meanwhile. One that has become
    // shorter breaks the connection off.
    let bytes = ReaderStream::with_capacity(found.file.take(found.size), DOWNLOAD_BUFFER);
    let counted = bytes.inspect(move |_| {
        let _until_the_end = &quota;
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, found.size.to_string()),
    ];
    let body = Body::from_stream(counted);
    Ok((Extension(Authenticated), headers, body).into_response())
}

/// `PUT /volumecontent/{id}/file`
pub(crate) async fn write(
    opened: Opened,
    headers: HeaderMap,
    body: Body,
) -> Answer<rest::VolumeEntry> {
    let owner = opened.ownership(FILE_MODE)?;
    let mode = if opened.force()? {
        WriteMode::Replace
    } else {
        WriteMode::New
    };
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let upload = Upload {
        announced,
        body: body
            .into_data_stream()
            .map_err(std::io::Error::other)
            .boxed(),
    };
    let entry = opened.files.write(opened.path, owner, mode, upload).await?;
    Ok(answer(StatusCode::CREATED, render(entry)))
}

fn answer<T>(status: StatusCode, body: T) -> (StatusCode, Extension<Authenticated>, Json<T>) {
    (status, Extension(Authenticated), Json(body))
}

fn render(entry: VolumeEntry) -> rest::VolumeEntry {
    rest::VolumeEntry {
        name: entry.name,
        kind: match entry.kind {
            EntryKind::File => rest::VolumeEntryKind::File,
            EntryKind::Directory => rest::VolumeEntryKind::Directory,
            EntryKind::Symlink => rest::VolumeEntryKind::Symlink,
            EntryKind::Other => rest::VolumeEntryKind::Unknown,
        },
        path: entry.path,
        size: entry.size,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        atime: entry.accessed,
        mtime: entry.modified,
        ctime: entry.changed,
        target: entry.target,
    }
}
