//! Registries, as the operator has named them, and requests to them.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, StatusCode, Url};
use skep_http::{PublicNames, http_client, is_localhost, is_private_literal};
use skep_types::Redacted;

use crate::error::FetchError;

/// Time limit for a connection to a registry.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for the next bytes of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Redirects that are followed.
const REDIRECTS: usize = 5;

/// A registry.
#[derive(Debug, Clone)]
pub struct Registry {
    /// URL of its index, without a user or a password.
    pub url: String,
    /// Value of the `Authorization` header for it.
    pub authorization: Option<Redacted<String>>,
}

/// A registry that cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Its address is no URL of HTTP.
    #[error("`{0}` is not the URL of a registry")]
    Url(String),
    /// Its credentials cannot be sent.
    #[error("the credentials for the registry `{0}` have characters that cannot be sent")]
    Credentials(String),
    /// The certificates of the host are none.
    #[error("the certificates that the host trusts cannot be used")]
    Certificates(#[source] reqwest::Error),
}

/// A registry whose address was checked.
#[derive(Debug)]
pub(crate) struct Upstream {
    base: Url,
    authorization: Option<HeaderValue>,
}

impl Upstream {
    pub(crate) fn new(registry: &Registry) -> Result<Self, RegistryError> {
        let wrong = || RegistryError::Url(registry.url.clone());
        let mut base = Url::parse(&registry.url).map_err(|_| wrong())?;
        let is_web = ["http", "https"].contains(&base.scheme());
        if !is_web || base.host_str().is_none() || base.password().is_some() {
            return Err(wrong());
        }
        base.set_query(None);
        base.set_fragment(None);
        let authorization = registry.authorization.as_ref().map(|value| {
            let mut value = HeaderValue::from_str(value.reveal())
                .map_err(|_| RegistryError::Credentials(registry.url.clone()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            base,
            authorization: authorization.transpose()?,
        })
    }

    /// Its host, as network rules name it.
    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The URL of something below it.
    pub(crate) fn at<'a>(&self, components: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(components);
        }
        url
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// Returns true if a host that its index names may be asked: none of this machine's network, and
    /// not in plain what the index itself is not.
    fn may_name(&self, url: &Url) -> bool {
        let is_safe = url.scheme() == "https" || url.scheme() == self.base.scheme();
        let host = url.host_str().unwrap_or_default();
        is_safe && !host.is_empty() && !is_localhost(host) && !is_private_literal(host)
    }
}

/// Clients for registries.
#[derive(Debug)]
pub(crate) struct Clients {
    /// For the hosts that the operator has named.
    named: Client,
    /// For all others, of which only public ones are connected to.
    others: Client,
}

impl Clients {
    pub(crate) fn new(certificates: Option<&str>) -> Result<Self, RegistryError> {
        let build = |client: reqwest::ClientBuilder| {
            let mut client = client
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT)
                .redirect(Policy::none())
                .referer(false)
                .user_agent(concat!("skep-mirror/", env!("CARGO_PKG_VERSION")));
            if let Some(pem) = certificates {
                client = client.tls_certs_merge(Certificate::from_pem_bundle(pem.as_bytes())?);
            }
            client.build()
        };
        let named = build(http_client()).map_err(RegistryError::Certificates)?;
        let others = build(http_client().dns_resolver(PublicNames));
        Ok(Self {
            named,
            others: others.map_err(RegistryError::Certificates)?,
        })
    }

    /// Asks for what an index names, or for the index. Redirects lead to the registry's own host, or to
    /// the one that was named. The answer is a success, or says that nothing has changed.
    pub(crate) async fn get(
        &self,
        upstream: &Upstream,
        url: &Url,
        accept: Option<&'static str>,
        conditions: &HeaderMap,
    ) -> Result<Response, FetchError> {
        let named = url.origin();
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let is_own = upstream.is_own(&url);
            if !is_own && (url.origin() != named || !upstream.may_name(&url)) {
                return Err(FetchError::Elsewhere);
            }
            let client = if is_own { &self.named } else { &self.others };
            let mut request = client.get(url.clone()).headers(conditions.clone());
            if let (true, Some(value)) = (is_own, &upstream.authorization) {
                request = request.header(AUTHORIZATION, value.clone());
            }
            if let Some(accept) = accept {
                request = request.header(ACCEPT, accept);
            }
            let answer = request.send().await?;
            let status = answer.status();
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                return judged(answer);
            }
            let location = answer
                .headers()
                .get(LOCATION)
                .and_then(|location| location.to_str().ok());
            url = location
                .and_then(|location| url.join(location).ok())
                .ok_or(FetchError::Status(status.as_u16()))?;
        }
        Err(FetchError::Elsewhere)
    }
}

fn judged(answer: Response) -> Result<Response, FetchError> {
    match answer.status() {
        StatusCode::OK | StatusCode::NOT_MODIFIED => Ok(answer),
        StatusCode::NOT_FOUND | StatusCode::GONE => Err(FetchError::Unknown),
        status => Err(FetchError::Status(status.as_u16())),
    }
}
