//! The REST API.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How long a call may take. Creating a sandbox is the longest and is bounded by the server.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one server as one key.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) sandbox_domain: Option<String>,
    api_key: String,
}

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server's address is not a URL.
    #[error("`{0}` is not the URL of a server; write http://host:port")]
    Address(String),
    /// The HTTP client could not be made, which only a broken certificate store causes.
    #[error("cannot set up HTTP")]
    Setup(#[source] reqwest::Error),
    /// Nobody answered.
    #[error("cannot reach `{server}`")]
    Unreachable {
        /// Whom we called.
        server: Url,
        /// What went wrong.
        source: reqwest::Error,
    },
    /// The server refused, in its own words.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The answer is not what this client understands.
    #[error("cannot read the server's answer to {what}")]
    Answer {
        /// Which call it was.
        what: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke in the middle of a stream.
    #[error("connection to the sandbox was lost")]
    Lost(#[source] reqwest::Error),
    /// The agent ended a stream with an error.
    #[error("{message}")]
    Agent {
        /// The stable code, such as `not_found`.
        code: String,
        /// What it said.
        message: String,
    },
}

impl ClientError {
    /// Whether the thing that was named does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }
}

/// What servers say when they refuse: ours `message`, interpreters `detail` or plain text.
#[derive(Deserialize)]
struct Refusal {
    message: Option<String>,
    detail: Option<serde_json::Value>,
}

/// A longer text is a page for a browser.
const LONGEST_REFUSAL: usize = 2000;

impl Client {
    /// A client of the server at `url`, as the owner of `api_key`. Connects on first use.
    ///
    /// # Errors
    ///
    /// [`ClientError::Address`] or [`ClientError::Setup`].
    pub fn new(url: &str, api_key: &str) -> Result<Self, ClientError> {
        let base = Url::parse(url)
            .ok()
            .filter(|base| base.has_host() && matches!(base.scheme(), "http" | "https"))
            .ok_or_else(|| ClientError::Address(url.to_owned()))?;
        // One process-wide choice; an earlier one is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .user_agent(concat!("skep/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self {
            http,
            base,
            sandbox_domain: None,
            api_key: api_key.to_owned(),
        })
    }

    /// The same client, for a server whose sandboxes have host names `<port>-<id>.<domain>`.
    /// Without it they are told apart by headers alone, at the server's own address.
    #[must_use]
    pub fn with_sandbox_domain(mut self, domain: &str) -> Self {
        self.sandbox_domain = Some(domain.to_owned());
        self
    }

    /// `GET path`, read as `T`.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        self.read(self.request(Method::GET, path)).await
    }

    /// `GET path`, as text.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn get_text(&self, path: &[&str]) -> Result<String, ClientError> {
        let response = self.send(self.request(Method::GET, path)).await?;
        response.text().await.map_err(ClientError::Lost)
    }

    /// `GET path?query`, read as `T`.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn get_with<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        self.read(self.request_url(Method::GET, url)).await
    }

    /// `GET path?query` page by page, to the end of the list.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn get_pages<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, ClientError> {
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut url = self.url(path);
            url.query_pairs_mut().extend_pairs(query);
            if let Some(token) = &next {
                url.query_pairs_mut().append_pair("nextToken", token);
            }
            let response = self.send(self.request_url(Method::GET, url)).await?;
            let token = response.headers().get("x-next-token");
            next = token.and_then(|token| token.to_str().ok().map(str::to_owned));
            all.extend(read::<Vec<T>>(response).await?);
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// `POST path` with a JSON body, read as `T`.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(self.request(Method::POST, path).json(body)).await
    }

    /// `POST path` with a JSON body, where a success says nothing more.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn post_silent(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::POST, path).json(body);
        self.send(request).await.map(drop)
    }

    /// `DELETE path`.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the server or the network made it.
    pub async fn delete(&self, path: &[&str]) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, path))
            .await
            .map(drop)
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Segments are encoded one by one, so an id can never become another path.
        url.path_segments_mut()
            .expect("checked to have a host")
            .pop_if_empty()
            .extend(path);
        url
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.request_url(method, self.url(path))
    }

    fn request_url(&self, method: Method, url: Url) -> RequestBuilder {
        self.http
            .request(method, url)
            .header("x-api-key", &self.api_key)
            .timeout(TIMEOUT)
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        read(self.send(request).await?).await
    }

    pub(crate) async fn send(
        &self,
        request: RequestBuilder,
    ) -> Result<reqwest::Response, ClientError> {
        let response = request
            .send()
            .await
            .map_err(|source| ClientError::Unreachable {
                server: self.base.clone(),
                source: source.without_url(),
            })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(response).await)
    }
}

pub(crate) async fn read<T: DeserializeOwned>(
    response: reqwest::Response,
) -> Result<T, ClientError> {
    let what = response.url().path().to_owned();
    response.json().await.map_err(|source| ClientError::Answer {
        what,
        source: Box::new(source),
    })
}

async fn refusal(response: reqwest::Response) -> ClientError {
    let status: StatusCode = response.status();
    let message = response.text().await.ok().and_then(|body| reason(&body));
    ClientError::Refused {
        status: status.as_u16(),
        message: message.unwrap_or_else(|| format!("the server answered {status}")),
    }
}

/// What a person can read of the body of a refusal.
fn reason(body: &str) -> Option<String> {
    match serde_json::from_str::<Refusal>(body) {
        Ok(Refusal {
            message: Some(message),
            ..
        }) => Some(message),
        Ok(Refusal { detail, .. }) => {
            let detail = detail?;
            let text = detail.as_str().or_else(|| detail[0]["msg"].as_str());
            text.map(str::to_owned)
        }
        Err(_) => {
            let text = body.trim();
            let is_readable = (1..LONGEST_REFUSAL).contains(&text.len()) && !text.starts_with('<');
            is_readable.then(|| text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_segment_cannot_leave_its_place() {
        let client = Client::new("http://127.0.0.1:3000/", "").unwrap();
        let url = client.url(&["sandboxes", "../keys?x=1"]);
        assert_eq!(
            url.as_str(),
            "http://127.0.0.1:3000/sandboxes/..%2Fkeys%3Fx=1"
        );
    }

    #[test]
    fn what_is_no_server_address_is_refused() {
        for address in ["", "127.0.0.1:3000", "ftp://x", "mailto:a@b"] {
            assert!(
                matches!(Client::new(address, ""), Err(ClientError::Address(_))),
                "{address}"
            );
        }
    }

    #[test]
    fn a_refusal_is_read_whoever_wrote_it() {
        for (body, expected) in [
            (
                r#"{"code":404,"message":"no such sandbox"}"#,
                Some("no such sandbox"),
            ),
            (r#"{"detail":"Not Found"}"#, Some("Not Found")),
            (r#"{"detail":[{"loc":[],"msg":"wrong"}]}"#, Some("wrong")),
            ("Context x not found", Some("Context x not found")),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(reason(body).as_deref(), expected, "{body}");
        }
    }
}
