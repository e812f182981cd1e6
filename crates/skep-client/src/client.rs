//! The connection to a server, and the calls of its REST API.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, Url, header, redirect};
use serde::de::DeserializeOwned;
use skep_http::{http_client, is_localhost};
use skep_wire::headers::{API_KEY, SANDBOX_ID, SANDBOX_PORT};

use crate::answers::{read, refusal};
use crate::error::{Cause, ClientError};
use crate::events::Events;
use crate::keys::ApiKeys;
use crate::sandbox::Sandbox;
use crate::sandboxes::Sandboxes;
use crate::secrets::Secrets;
use crate::templates::Templates;
use crate::volumes::Volumes;
use crate::webhooks::Webhooks;

/// Time limit of a call, unless told otherwise. Creating a sandbox is the longest and is bounded by
/// the server; a new context may have to wait for its kernel.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a connection to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to one server, with one API key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    sandbox_domain: Option<String>,
    api_key: String,
    call_timeout: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key does not belong into a log.
        formatter
            .debug_struct("Client")
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

/// Ways to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// Through the proxy that the environment names for it, if it does.
    AsConfigured,
    Directly,
}

/// Returns true if a URL leads to this host's loopback. A proxy would look for it on its own.
fn is_this_host(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>();
        is_localhost(host) || address.is_ok_and(|address| address.is_loopback())
    })
}

impl Client {
    /// A client of the server at `url`, as the owner of `api_key`. Connects on first use.
    ///
    /// # Errors
    ///
    /// [`Cause::Address`] if `url` is not one of HTTP, [`Cause::Setup`] if HTTP cannot be set up.
    pub fn new(url: &str, api_key: &str) -> Result<Self, ClientError> {
        Self::reaching(url, api_key, Reached::AsConfigured)
    }

    /// The same for a server whose key no proxy may see, whatever the environment says. One on
    /// loopback is always reached so.
    ///
    /// # Errors
    ///
    /// As [`Client::new`].
    pub fn direct(url: &str, api_key: &str) -> Result<Self, ClientError> {
        Self::reaching(url, api_key, Reached::Directly)
    }

    fn reaching(url: &str, api_key: &str, reached: Reached) -> Result<Self, ClientError> {
        let failed = |cause| ClientError::new("make a client", cause);
        let base = Url::parse(url)
            .ok()
            .filter(|base| base.has_host() && matches!(base.scheme(), "http" | "https"))
            .ok_or_else(|| failed(Cause::Address(url.to_owned())))?;
        let mut http = http_client()
            .user_agent(concat!("skep/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A key is for the server that was named, and not for whom that names in turn.
            .redirect(redirect::Policy::none());
        if reached == Reached::Directly || is_this_host(&base) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| failed(Cause::Setup(error)))?;
        Ok(Self {
            http,
            base,
            sandbox_domain: None,
            api_key: api_key.to_owned(),
            call_timeout: CALL_TIMEOUT,
        })
    }

    /// The same client, for a server whose sandboxes have host names `<port>-<id>.<domain>`.
    /// Without it they are addressed by headers alone, at the server's own address.
    #[must_use]
    pub fn with_sandbox_domain(mut self, domain: &str) -> Self {
        self.sandbox_domain = Some(domain.to_owned());
        self
    }

    /// The same server, as the owner of another key. Both share their connections.
    #[must_use]
    pub fn with_api_key(mut self, api_key: &str) -> Self {
        self.api_key = api_key.to_owned();
        self
    }

    /// The same client with another time limit of calls. Streams have none: commands, executions
    /// and files take as long as they take.
    #[must_use]
    pub fn with_call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Returns true if the server is reached by TLS.
    pub fn is_secure(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// The sandboxes of the key's team: create and list them.
    pub fn sandboxes(&self) -> Sandboxes<'_> {
        Sandboxes::new(self)
    }

    /// The sandbox `id`. Makes no call: whether it exists is seen by the first one that does.
    pub fn sandbox(&self, id: &str) -> Sandbox {
        Sandbox::named(self, id)
    }

    /// The templates that the key's team can use: build, tag and list them.
    pub fn templates(&self) -> Templates<'_> {
        Templates::new(self)
    }

    /// Follows the events of the sandboxes of the key's team.
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// The webhooks of the key's team.
    pub fn webhooks(&self) -> Webhooks<'_> {
        Webhooks::new(self)
    }

    /// The secrets of the key's team.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets::new(self)
    }

    /// The API keys of the key's team.
    pub fn api_keys(&self) -> ApiKeys<'_> {
        ApiKeys::new(self)
    }

    /// The volumes of the key's team.
    pub fn volumes(&self) -> Volumes<'_> {
        Volumes::new(self)
    }

    /// The server's answer to a health check, which needs no key.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if it does not answer.
    pub async fn health(&self) -> Result<String, ClientError> {
        self.text("check the health of the server", &["health"])
            .await
    }

    /// The metrics of the server, in Prometheus' text format.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if the key is not the operator's.
    pub async fn server_metrics(&self) -> Result<String, ClientError> {
        self.text("read the metrics of the server", &["skep", "metrics"])
            .await
    }

    async fn text(&self, operation: &str, path: &[&str]) -> Result<String, ClientError> {
        let request = self.request(Method::GET, self.url(path));
        let response = self.send(operation, request).await?;
        response
            .text()
            .await
            .map_err(|error| ClientError::new(operation, Cause::Lost(Some(error))))
    }

    pub(crate) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Segments are encoded one by one, so an id can never become another path.
        url.path_segments_mut()
            .expect("checked to have a host")
            .pop_if_empty()
            .extend(path);
        url
    }

    /// A request to the API without the key, for routes that have tokens of their own.
    pub(crate) fn anonymous_request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http.request(method, url)
    }

    /// A request to the API, with the key and the time limit of calls.
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http
            .request(method, url)
            .header(API_KEY, &self.api_key)
            .timeout(self.call_timeout)
    }

    /// An upload to an address that the server has given, without the key and without a time limit.
    pub(crate) fn put(&self, url: &str, length: u64) -> RequestBuilder {
        self.http.put(url).header(header::CONTENT_LENGTH, length)
    }

    /// The same without a time limit, for an answer that has no end.
    pub(crate) fn endless(&self, method: Method, url: Url) -> RequestBuilder {
        self.http
            .request(method, url)
            .header(API_KEY, &self.api_key)
    }

    /// A request to a port of a sandbox, without a time limit.
    pub(crate) fn request_to(
        &self,
        (id, port): (&str, u16),
        method: Method,
        path: &str,
    ) -> RequestBuilder {
        let origin = match &self.sandbox_domain {
            Some(domain) => format!("{}://{port}-{id}.{domain}", self.base.scheme()),
            None => shared_origin(&self.base),
        };
        // An id that is not part of a host name makes a request that fails when it is sent.
        self.http
            .request(method, format!("{origin}{path}"))
            .header(SANDBOX_ID, id)
            .header(SANDBOX_PORT, port)
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Sends a request; every status but success is an error.
    pub(crate) async fn send(
        &self,
        operation: &str,
        request: RequestBuilder,
    ) -> Result<Response, ClientError> {
        let failed = |cause| ClientError::new(operation, cause);
        let response = request.send().await.map_err(|source| {
            failed(Cause::Unreachable {
                server: self.base.clone(),
                source: source.without_url(),
            })
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(failed(refusal(response).await))
    }

    /// Sends a request and reads the answer as JSON.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        read(operation, self.send(operation, request).await?).await
    }

    /// Reads a list page by page, to its end.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        operation: &str,
        url: &Url,
    ) -> Result<Vec<T>, ClientError> {
        self.pages_until(operation, url, |_| false).await
    }

    /// Reads a list page by page, until what was read is enough.
    pub(crate) async fn pages_until<T: DeserializeOwned>(
        &self,
        operation: &str,
        url: &Url,
        is_enough: impl Fn(&[T]) -> bool,
    ) -> Result<Vec<T>, ClientError> {
        let mut all = Vec::new();
        let mut page = url.clone();
        loop {
            let response = self
                .send(operation, self.request(Method::GET, page))
                .await?;
            let next = response
                .headers()
                .get("x-next-token")
                .and_then(|token| token.to_str().ok().map(str::to_owned));
            all.extend(read::<Vec<T>>(operation, response).await?);
            let Some(token) = next.filter(|_| !is_enough(&all)) else {
                return Ok(all);
            };
            page = url.clone();
            page.query_pairs_mut().append_pair("nextToken", &token);
        }
    }
}

/// The origin at which all sandboxes of a server are reached, told apart by headers.
///
/// A name `api.<domain>` is the API's alone. On this host the name for sandboxes is known without
/// asking anybody; elsewhere it is what [`Client::with_sandbox_domain`] says.
fn shared_origin(base: &Url) -> String {
    let api = base.domain().and_then(|name| name.strip_prefix("api."));
    let origin = base.origin().ascii_serialization();
    match api.filter(|domain| domain.ends_with(".localhost")) {
        Some(_) => origin.replacen("://api.", "://sandbox.", 1),
        None => origin,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
    fn sandboxes_have_a_name_of_their_own_beside_the_apis() {
        for (server, sandboxes) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
            (
                "http://api.skep.localhost:3000/",
                "http://sandbox.skep.localhost:3000",
            ),
            ("https://api.example.com", "https://api.example.com"),
        ] {
            let client = Client::new(server, "").unwrap();
            assert_eq!(shared_origin(&client.base), sandboxes);
        }
    }

    #[test]
    fn this_host_is_reached_without_a_proxy() {
        for (url, expected) in [
            ("http://127.0.0.1:3000", true),
            ("http://[::1]:3000", true),
            ("https://api.skep.localhost:3000", true),
            ("http://192.0.2.1", false),
            ("https://skep.example", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(is_this_host(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    /// The key is a header that HTTP clients do not know to be secret, so they show it to whomever
    /// a redirect names.
    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let bind = || tokio::net::TcpListener::bind("127.0.0.1:0");
        let (server, other) = (bind().await.unwrap(), bind().await.unwrap());
        let url = format!("http://{}", server.local_addr().unwrap());
        let elsewhere = other.local_addr().unwrap();
        let answering = async {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).await.unwrap() > 0);
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{elsewhere}/\r\n\
                 content-length: 0\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let client = Client::new(&url, "e2b_secret").unwrap();
        let (asked, _stream) = tokio::join!(client.health(), answering);
        assert_eq!(asked.unwrap_err().status(), Some(307));
        let followed = tokio::time::timeout(Duration::ZERO, other.accept()).await;
        assert!(followed.is_err(), "nobody came");
    }

    #[test]
    fn an_address_that_is_not_a_servers_is_refused() {
        for address in ["", "127.0.0.1:3000", "ftp://x", "mailto:a@b"] {
            let error = Client::new(address, "").unwrap_err();
            assert!(matches!(error.cause(), Cause::Address(_)), "{address}");
        }
    }
}
