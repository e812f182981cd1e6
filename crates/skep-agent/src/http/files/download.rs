//! `GET /files`: a file on its way out.
//!
//! A small file is read where it is opened and answered whole. A larger one is read piece by
//! piece as the client takes it, so memory does not grow with the file. Files of procfs and
//! sysfs lie about their size; they are read to their end and not cut to what was announced.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use async_compression::Level;
use async_compression::tokio::bufread::GzipEncoder;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, IF_MODIFIED_SINCE, IF_RANGE, LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio_util::io::{ReaderStream, StreamReader};

use super::range::{Wanted, wanted};
use super::{MaybeQuery, content, parse};
use crate::agent::Agent;
use crate::filesystem::{FileError, View, blocking};
use crate::http::encoding::{Coding, choose};
use crate::http::rest_error::RestError;
use crate::http::signature::Operation;
use crate::rootfs;
use crate::sandbox::path;

/// Size of one read, and the largest size that counts as small.
const PIECE: usize = 256 << 10;

/// `GET /files`: downloads a file, or a range of it.
pub(crate) async fn download(
    State(agent): State<Arc<Agent>>,
    query: MaybeQuery,
    headers: HeaderMap,
) -> Result<Response, RestError> {
    let query = parse(query)?;
    query.authorize(&agent, &headers, Operation::Read)?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // A range counts the bytes of the file, so an answer that may be one is not compressed.
    let conditional = [RANGE, IF_RANGE, IF_MODIFIED_SINCE]
        .iter()
        .any(|name| headers.contains_key(name));
    let coding = choose(text(ACCEPT_ENCODING), conditional)
        .ok_or_else(|| RestError::new(StatusCode::NOT_ACCEPTABLE, "no acceptable encoding"))?;

    let (config, accounts) = (agent.settings.current(), agent.spawner.accounts.clone());
    let opened = blocking(move || {
        let view = View::of(&accounts, &config, query.username())?;
        open_file(&view.resolve(&query.path)?)
    })
    .await
    .map_err(|error| {
        if let FileError::IsDirectory { path } = &error {
            return RestError::bad_request(format!("path '{path}' is a directory"));
        }
        error.into()
    })?;
    answer(opened, coding, &headers)
}

/// A file, its first piece, and whether that was all.
struct Opened {
    path: String,
    file: File,
    head: Bytes,
    is_complete: bool,
    /// Size according to the filesystem, which for files of procfs is zero.
    size: u64,
    modified: Timestamp,
}

fn open_file(path: &str) -> Result<Opened, FileError> {
    let failed = |source: io::Error| match Errno::from_io_error(&source) {
        Some(Errno::NOTDIR) => FileError::NotFound {
            path: path.to_owned(),
        },
        _ => FileError::io("read", path, source),
    };
    let file: OwnedFd = rootfs::open(path, OFlags::RDONLY, Mode::empty()).map_err(failed)?;
    rootfs::expect_regular(&file).map_err(failed)?;
    let mut file = File::from(file);
    let about = file.metadata().map_err(failed)?;
    // Read before the answer begins, so that a file that cannot be read is an error with a status;
    // and some media types are known by their first bytes alone.
    let (head, is_complete) = read_piece(&mut file, PIECE).map_err(failed)?;
    Ok(Opened {
        path: path.to_owned(),
        file,
        head,
        is_complete,
        size: about.size(),
        modified: Timestamp::from_second(about.mtime()).unwrap_or_default(),
    })
}

/// Reads until the piece is full or the file ends, which is the second answer.
fn read_piece(file: &mut File, limit: usize) -> io::Result<(Bytes, bool)> {
    let mut piece = Vec::new();
    let limit_u64 = u64::try_from(limit).unwrap_or(u64::MAX);
    file.take(limit_u64).read_to_end(&mut piece)?;
    let is_end = piece.len() < limit;
    Ok((piece.into(), is_end))
}

impl Opened {
    /// The number of bytes that will come, if that can be known.
    fn length(&self) -> Option<u64> {
        let read = self.head.len() as u64;
        if self.is_complete {
            Some(read)
        } else {
            Some(self.size).filter(|size| *size > read)
        }
    }
}

fn answer(opened: Opened, coding: Coding, headers: &HeaderMap) -> Result<Response, RestError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let modified = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&opened.modified);
    let mut response = Response::new(Body::empty());
    let answered = response.headers_mut();
    let name = path::base_name(&opened.path);
    for (header, value) in [
        (CONTENT_DISPOSITION, content::disposition(name)),
        (CONTENT_TYPE, content::media_type(name, &opened.head)),
    ] {
        answered.insert(
            header,
            HeaderValue::from_str(&value).expect("made of header characters"),
        );
    }
    answered.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(modified) = &modified {
        answered.insert(
            LAST_MODIFIED,
            HeaderValue::from_str(modified).expect("a date is a header value"),
        );
    }
    if is_unchanged(text(IF_MODIFIED_SINCE), opened.modified) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    if coding == Coding::Gzip {
        answered.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        *response.body_mut() = Body::from_stream(compress(pieces(opened, None)));
        return Ok(response);
    }
    answered.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let range = text(RANGE)
        .filter(|_| text(IF_RANGE).is_none_or(|date| modified.as_deref().ok() == Some(date)));
    // Without a length where there is none to rely on: procfs says zero for all its files.
    let Some(length) = opened.length() else {
        *response.body_mut() = Body::from_stream(pieces(opened, None));
        return Ok(response);
    };
    match wanted(range, length) {
        Wanted::Whole => {
            answered.insert(CONTENT_LENGTH, length.into());
            *response.body_mut() = if opened.is_complete {
                Body::from(opened.head)
            } else {
                Body::from_stream(pieces(opened, Some((0, length))))
            };
        }
        Wanted::Part { start, end } => {
            let range = format!("bytes {start}-{}/{length}", end - 1);
            answered.insert(
                CONTENT_RANGE,
                HeaderValue::from_str(&range).expect("digits"),
            );
            answered.insert(CONTENT_LENGTH, (end - start).into());
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            *response.body_mut() = Body::from_stream(pieces(opened, Some((start, end))));
        }
        Wanted::Unsatisfiable => {
            let text = "the requested range is not in the file";
            let mut refused =
                RestError::new(StatusCode::RANGE_NOT_SATISFIABLE, text).into_response();
            let range = HeaderValue::from_str(&format!("bytes */{length}")).expect("digits");
            refused.headers_mut().insert(CONTENT_RANGE, range);
            return Ok(refused);
        }
    }
    Ok(response)
}

fn is_unchanged(since: Option<&str>, modified: Timestamp) -> bool {
    since
        .and_then(|date| {
            rfc2822::DateTimeParser::new()
                .parse_zoned(date.replace("GMT", "+0000"))
                .ok()
        })
        .is_some_and(|since| modified <= since.timestamp())
}

/// The bytes of a file, or a part of them, read as they are asked for.
fn pieces(
    opened: Opened,
    part: Option<(u64, u64)>,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let first = if part.is_none_or(|(start, _)| start == 0) {
        opened.head
    } else {
        Bytes::new()
    };
    let first = match part {
        Some((_, end)) => {
            first.slice(..first.len().min(usize::try_from(end).unwrap_or(usize::MAX)))
        }
        None => first,
    };
    let read = first.len() as u64;
    let rest = Rest {
        file: opened.file,
        seek: part.map(|(start, _)| start + read),
        left: part.map(|(start, end)| end - start - read),
        is_done: opened.is_complete && part.is_none(),
    };
    let rest = futures_util::stream::unfold(Some(rest), |rest| async move {
        let rest = rest.filter(|rest| !rest.is_done && rest.left != Some(0))?;
        match tokio::task::spawn_blocking(move || rest.next()).await {
            Ok(Ok((piece, _))) if piece.is_empty() => None,
            Ok(Ok((piece, rest))) => Some((Ok(piece), Some(rest))),
            Ok(Err(error)) => Some((Err(error), None)),
            Err(panic) => Some((Err(io::Error::other(panic)), None)),
        }
    });
    let first = (!first.is_empty()).then_some(Ok(first));
    futures_util::stream::iter(first).chain(rest)
}

/// The part of a file that has not been read yet.
struct Rest {
    file: File,
    /// Offset at which to go on, if not where the last read ended.
    seek: Option<u64>,
    /// Number of bytes still wanted; `None` is everything.
    left: Option<u64>,
    is_done: bool,
}

impl Rest {
    fn next(mut self) -> io::Result<(Bytes, Self)> {
        if let Some(position) = self.seek.take() {
            self.file.seek(SeekFrom::Start(position))?;
        }
        let limit = self.left.map_or(PIECE, |left| {
            usize::try_from(left).unwrap_or(PIECE).min(PIECE)
        });
        let (piece, is_end) = read_piece(&mut self.file, limit)?;
        if is_end && self.left.is_some() {
            // The length was announced; a shorter body must not look complete.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.is_done = is_end;
        self.left = self
            .left
            .map(|left| left.saturating_sub(piece.len() as u64));
        Ok((piece, self))
    }
}

fn compress(
    pieces: impl Stream<Item = io::Result<Bytes>> + Send,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let reader = StreamReader::new(pieces);
    ReaderStream::with_capacity(GzipEncoder::with_quality(reader, Level::Fastest), 64 << 10)
}
