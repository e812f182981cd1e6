//! `POST /files`: files on their way in.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use async_compression::tokio::bufread::GzipDecoder;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE};
use serde::Serialize;
use skep_telemetry::Chain;
use tokio_util::io::{ReaderStream, StreamReader};

use super::receive::{ReceiveError, receive};
use super::refusable::{RefusableBody, refusable};
use super::{FileQuery, MaybeQuery, metadata, parse, part_name};
use crate::agent::Agent;
use crate::filesystem::{View, blocking};
use crate::http::rest_error::RestError;
use crate::http::signature::Operation;
use crate::sandbox::path;

/// A file that was written.
#[derive(Debug, Serialize)]
pub(crate) struct Written {
    path: String,
    name: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

impl Written {
    pub(super) fn new(path: String, metadata: BTreeMap<String, String>) -> Self {
        Self {
            name: path::base_name(&path).to_owned(),
            path,
            r#type: "file",
            metadata,
        }
    }
}

impl From<ReceiveError> for RestError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Body(_) => Self::bad_request(Chain(&error).to_string()),
            ReceiveError::File(error) => error.into(),
        }
    }
}

type Bodies = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// `POST /files`: writes uploaded files.
pub(crate) async fn upload(
    State(agent): State<Arc<Agent>>,
    query: MaybeQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Vec<Written>>, RestError> {
    let (body, refusal) = refusable(body);
    let written = write_files(&agent, query, &headers, body).await;
    if written.is_err() {
        refusal.drain();
    }
    written.map(Json)
}

async fn write_files(
    agent: &Agent,
    query: MaybeQuery,
    headers: &HeaderMap,
    body: RefusableBody,
) -> Result<Vec<Written>, RestError> {
    let query = parse(query)?;
    query.authorize(agent, headers, Operation::Write)?;
    let metadata = metadata::from_headers(headers)
        .map_err(|error| RestError::bad_request(error.to_string()))?;
    let body = decoded(headers, body)?;
    let (config, accounts) = (agent.settings.current(), agent.spawner.accounts.clone());
    let (query, view) = blocking(move || {
        let view = View::of(&accounts, &config, query.username())?;
        Ok((query, view))
    })
    .await?;
    let upload = Upload {
        query,
        view,
        metadata: Arc::new(metadata),
        written: Vec::new(),
    };

    let content_type = headers
        .get(CONTENT_TYPE)
        .map_or(Ok(""), |value| value.to_str())
        .unwrap_or_default();
    match content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        // Nothing said: an attempt at multipart, which fails by saying what is missing.
        "multipart/form-data" | "" => upload.parts(content_type, body).await,
        "application/octet-stream" => upload.raw(body).await,
        _ => Err(RestError::bad_request(format!(
            "unsupported content type: {content_type}"
        ))),
    }
}

fn decoded(headers: &HeaderMap, body: RefusableBody) -> Result<Bodies, RestError> {
    let coding = headers
        .get(CONTENT_ENCODING)
        .map_or(Ok("identity"), |value| value.to_str());
    match coding.unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Box::pin(body)),
        "gzip" => {
            let mut decoder = GzipDecoder::new(StreamReader::new(body));
            decoder.multiple_members(true);
            Ok(Box::pin(ReaderStream::with_capacity(decoder, 64 << 10)))
        }
        other => Err(RestError::bad_request(format!(
            "unsupported content encoding: {other}"
        ))),
    }
}

struct Upload {
    query: FileQuery,
    view: View,
    metadata: Arc<BTreeMap<String, String>>,
    written: Vec<Written>,
}

impl Upload {
    async fn raw(mut self, body: Bodies) -> Result<Vec<Written>, RestError> {
        if self.query.path.is_empty() {
            let text = "path query parameter is required for raw body upload";
            return Err(RestError::bad_request(text));
        }
        let path = self.view.resolve(&self.query.path)?;
        self.write(path, body).await?;
        Ok(self.written)
    }

    async fn parts(mut self, content_type: &str, body: Bodies) -> Result<Vec<Written>, RestError> {
        let malformed = |error: multer::Error| {
            RestError::bad_request(format!("error parsing multipart form: {}", Chain(&error)))
        };
        let boundary = multer::parse_boundary(content_type).map_err(malformed)?;
        let mut parts = multer::Multipart::new(body, boundary);
        let mut paths = BTreeSet::new();
        while let Some(part) = parts.next_field().await.map_err(malformed)? {
            if part.name() != Some("file") {
                continue;
            }
            // The query wins: some clients name every part `undefined`.
            let requested = if self.query.path.is_empty() {
                let disposition = part
                    .headers()
                    .get(CONTENT_DISPOSITION)
                    .and_then(|value| str::from_utf8(value.as_bytes()).ok());
                disposition
                    .and_then(part_name::file_name)
                    .or_else(|| part.file_name().map(str::to_owned))
                    .unwrap_or_default()
            } else {
                self.query.path.clone()
            };
            let path = self.view.resolve(&requested)?;
            if !paths.insert(path::clean(&path)) {
                let text = format!("cannot upload multiple files to the same path: {path}");
                return Err(RestError::bad_request(text));
            }
            let body = part.map(|piece| piece.map_err(io::Error::other));
            self.write(path, Box::pin(body)).await?;
        }
        Ok(self.written)
    }

    async fn write<S>(&mut self, path: String, body: S) -> Result<(), RestError>
    where
        S: Stream<Item = io::Result<Bytes>> + Unpin,
    {
        let (user, metadata) = (Arc::new(self.view.user.clone()), Arc::clone(&self.metadata));
        receive(path.clone(), user, metadata, body).await?;
        self.written
            .push(Written::new(path, self.metadata.as_ref().clone()));
        Ok(())
    }
}
