//! Requests to one registry, for one repository.

use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, RANGE, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use skep_http::{PrivateName, is_private_literal};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use crate::address::{host_of, is_loopback};
use crate::challenge::Challenge;
use crate::credentials::Basic;
use crate::digest::Digest;
use crate::error::PullReason;
use crate::manifest::{ACCEPTED, Part};
use crate::room::{GLANCE, Room};

pub(crate) const HTTP: &str = "http";
pub(crate) const HTTPS: &str = "https";
/// No manifest, configuration or token is larger.
const LARGEST_DOCUMENT: usize = 4 << 20;
/// Bytes of a blob after which it is told how many have come, and how often that is at most.
const LEAST_NEWS: u64 = 8 << 20;
const MOST_NEWS: u64 = 20;
/// Attempts to get a blob from a registry that hangs up.
const ATTEMPTS: usize = 3;
/// Time limit for a document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A repository of a registry, as one caller may see it.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) client: Client,
    /// [`HTTPS`], or [`HTTP`] for a registry on this host and for one of which the operator says so.
    pub(crate) scheme: &'static str,
    /// Host and port that requests go to.
    pub(crate) host: String,
    /// Returns true if the operator has named the registry, wherever it is.
    pub(crate) is_trusted: bool,
    pub(crate) name: String,
    pub(crate) credentials: Option<Basic>,
    /// Authorization that the registry took last. The lock is held for a copy.
    pub(crate) authorization: Mutex<Option<HeaderValue>>,
}

/// Kind of a request to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Manifest,
    Blob,
    FirstByte,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
}

impl Repository {
    /// The manifest of a version, with its digest.
    pub(crate) async fn manifest(&self, version: &str) -> Result<(Digest, Vec<u8>), PullReason> {
        let answer = self
            .get(&format!("manifests/{version}"), Want::Manifest)
            .await?;
        let bytes = self.document(answer).await?;
        let digest = Digest::of(&bytes);
        let asked = version.parse::<Digest>();
        if asked.is_ok_and(|asked| asked != digest) {
            return Err(PullReason::Digest(version.to_owned()));
        }
        Ok((digest, bytes))
    }

    /// A small blob, whole.
    pub(crate) async fn document_blob(&self, part: Part) -> Result<Vec<u8>, PullReason> {
        let answer = self.get(&blob(part), Want::Blob).await?;
        let bytes = self.document(answer).await?;
        if Digest::of(&bytes) != part.digest {
            return Err(PullReason::Digest(part.digest.to_string()));
        }
        Ok(bytes)
    }

    /// Checks that this caller would be given a blob. Its first byte is asked for, by the request that
    /// fetches the whole: `HEAD` is another request, which a registry may not have or may answer by
    /// other rules.
    pub(crate) async fn offers(&self, part: Part) -> Result<(), PullReason> {
        let answer = self.get(&blob(part), Want::FirstByte).await?;
        // A connection whose answer was read serves the next question.
        drop(read_bounded(answer, 1).await);
        Ok(())
    }

    /// Writes a blob to a file, which is empty or not there, and checks that it is the one. Tells
    /// how many bytes have come, some times on the way, and ends where the disk has no more room.
    pub(crate) async fn download(
        &self,
        part: Part,
        file: &mut File,
        room: Room,
        tell: &(impl Fn(u64) + Sync),
    ) -> Result<(), PullReason> {
        let mut attempt = 1;
        loop {
            match self.download_once(part, file, room, tell).await {
                Err(PullReason::Unreachable { .. }) if attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
            rewind(file)
                .await
                .map_err(PullReason::system("empty the file of a layer"))?;
        }
    }

    async fn download_once(
        &self,
        part: Part,
        file: &mut File,
        room: Room,
        tell: &(impl Fn(u64) + Sync),
    ) -> Result<(), PullReason> {
        room.check(&*file, part.size)?;
        let step = LEAST_NEWS.max(part.size / MOST_NEWS);
        let answer = self.get(&blob(part), Want::Blob).await?;
        let mut chunks = answer.bytes_stream();
        let mut hash = Sha256::new();
        let mut received = 0_u64;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| self.unreachable(&error))?;
            let before = received;
            received = received.saturating_add(chunk.len() as u64);
            if received > part.size {
                return Err(PullReason::Digest(part.digest.to_string()));
            }
            if received < part.size && received / step > before / step {
                tell(received);
            }
            if received / GLANCE > before / GLANCE {
                // Others write to the disk, too.
                room.check(&*file, GLANCE)?;
            }
            hash.update(&chunk);
            file.write_all(&chunk)
                .await
                .map_err(PullReason::system("write a layer"))?;
        }
        file.flush()
            .await
            .map_err(PullReason::system("write a layer"))?;
        if Digest::finished(hash) == part.digest {
            Ok(())
        } else if received < part.size {
            Err(PullReason::Unreachable {
                registry: self.host.clone(),
                cause: "it hung up".to_owned(),
            })
        } else {
            Err(PullReason::Digest(part.digest.to_string()))
        }
    }

    /// Asks for something of the repository, and answers one challenge.
    async fn get(&self, path: &str, want: Want) -> Result<Response, PullReason> {
        let answer = self.send(path, want).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return self.accepted(answer, want).await;
        }
        let values: Vec<&str> = answer
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        let authorization = match Challenge::read(values.into_iter()) {
            Some(Challenge::Basic) => self.credentials.as_ref().and_then(Basic::header),
            Some(Challenge::Bearer { realm, service }) => {
                self.token(&realm, service.as_deref()).await?
            }
            None => None,
        };
        let Some(authorization) = authorization else {
            return Err(self.unauthenticated());
        };
        *self.authorization.lock() = Some(authorization);
        let answer = self.send(path, want).await?;
        self.accepted(answer, want).await
    }

    async fn send(&self, path: &str, want: Want) -> Result<Response, PullReason> {
        if !self.is_trusted && is_private_literal(host_of(&self.host)) {
            return Err(PullReason::PrivateRegistry(self.host.clone()));
        }
        let (scheme, host) = (self.scheme, &self.host);
        let url = format!("{scheme}://{host}/v2/{}/{path}", self.name);
        let mut request = self.client.get(url);
        request = match want {
            Want::Manifest => request.header(ACCEPT, ACCEPTED).timeout(DOCUMENT_TIMEOUT),
            Want::Blob => request,
            Want::FirstByte => request.header(RANGE, "bytes=0-0").timeout(DOCUMENT_TIMEOUT),
        };
        if let Some(authorization) = self.authorization.lock().clone() {
            request = request.header(AUTHORIZATION, authorization);
        }
        request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))
    }

    /// Asks `realm` for a token to read this repository.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
    ) -> Result<Option<HeaderValue>, PullReason> {
        let mut url = reqwest::Url::parse(realm)
            .map_err(|_| PullReason::Malformed("it names nobody who gives out tokens"))?;
        // A password must not travel in the clear because a registry says so.
        let is_here = url.host_str().is_some_and(|host| {
            host == host_of(&self.host) || is_loopback(host) && is_loopback(&self.host)
        });
        if url.scheme() != HTTPS && !(self.scheme == HTTP && is_here) {
            return Err(PullReason::Malformed("tokens are given out without TLS"));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        if !self.is_trusted && is_private_literal(&host) {
            return Err(PullReason::PrivateRegistry(host));
        }
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &format!("repository:{}:pull", self.name));
        }
        let mut request = self.client.get(url).timeout(DOCUMENT_TIMEOUT);
        if let Some(header) = self.credentials.as_ref().and_then(Basic::header) {
            request = request.header(AUTHORIZATION, header);
        }
        let answer = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        match answer.status() {
            status if status.is_success() => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.unauthenticated()),
            status => return Err(PullReason::Status(status.as_u16())),
        }
        let bytes = self.document(answer).await?;
        let token = serde_json::from_slice::<Token>(&bytes)
            .ok()
            .and_then(|token| token.token.or(token.access_token))
            .ok_or(PullReason::Malformed("it gives out no token"))?;
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        Ok(value.ok().map(|mut value| {
            value.set_sensitive(true);
            value
        }))
    }

    /// The answer, if it is what was asked for.
    async fn accepted(&self, answer: Response, want: Want) -> Result<Response, PullReason> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(match status {
            StatusCode::UNAUTHORIZED => self.unauthenticated(),
            StatusCode::FORBIDDEN => PullReason::Permission,
            StatusCode::NOT_FOUND if want == Want::Manifest => {
                let bytes = read_bounded(answer, LARGEST_DOCUMENT)
                    .await
                    .unwrap_or_default();
                let errors = serde_json::from_slice::<Errors>(&bytes).map(|body| body.errors);
                let is_unknown = |entry: &ErrorEntry| entry.code == "NAME_UNKNOWN";
                if errors.is_ok_and(|errors| errors.iter().any(is_unknown)) {
                    PullReason::RepositoryNotFound
                } else {
                    PullReason::NotFound
                }
            }
            status => PullReason::Status(status.as_u16()),
        })
    }

    async fn document(&self, answer: Response) -> Result<Vec<u8>, PullReason> {
        read_bounded(answer, LARGEST_DOCUMENT)
            .await
            .ok_or(PullReason::Malformed(
                "a document of it is cut off or too large",
            ))
    }

    fn unauthenticated(&self) -> PullReason {
        let reason = match self.credentials {
            Some(_) => "the registry does not accept the credentials",
            None => "the registry asks for credentials",
        };
        PullReason::Authentication(reason.to_owned())
    }

    /// A failure of the connection, without the URL: a redirect of a blob may carry a signature.
    fn unreachable(&self, error: &reqwest::Error) -> PullReason {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            if cause.is::<PrivateName>() {
                break;
            }
            cause = source;
        }
        if cause.is::<PrivateName>() {
            return PullReason::PrivateRegistry(self.host.clone());
        }
        let cause = if cause.is::<reqwest::Error>() {
            if error.is_timeout() {
                "it does not answer"
            } else {
                "the request failed"
            }
            .to_owned()
        } else {
            cause.to_string()
        };
        PullReason::Unreachable {
            registry: self.host.clone(),
            cause,
        }
    }
}

/// The body of an answer; `None` if it is longer than `limit` or is cut off.
pub(crate) async fn read_bounded(answer: Response, limit: usize) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        if body.len() + chunk.len() > limit {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}

fn blob(part: Part) -> String {
    format!("blobs/{}", part.digest)
}

async fn rewind(file: &mut File) -> std::io::Result<()> {
    use tokio::io::AsyncSeekExt as _;

    file.flush().await?;
    file.set_len(0).await?;
    file.rewind().await?;
    Ok(())
}
