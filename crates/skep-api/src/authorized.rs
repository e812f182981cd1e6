//! Who is asking, from the headers.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use skep_control::{ApiKey, Caller};

use crate::error::ApiError;
use crate::router::{Access, Edge};

/// A caller that was let in. The first argument of every handler that looks at anything, so
/// that nobody learns what exists before it is known who they are.
#[derive(Debug)]
pub(crate) struct Authorized {
    pub(crate) caller: Caller,
    /// The key that was shown; `None` where none is asked for.
    pub(crate) key: Option<ApiKey>,
}

impl FromRequestParts<Edge> for Authorized {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, ApiError> {
        match edge.access() {
            Access::Trusted => Ok(Self {
                caller: edge.control().trusted_caller().await?,
                key: None,
            }),
            Access::Keys => {
                let key = shown_key(&parts.headers)?;
                Ok(Self {
                    caller: edge.control().authenticate(&key).await?,
                    key: Some(key),
                })
            }
        }
    }
}

/// `X-API-Key`, or else a key in `Authorization`. Old command-line clients send a token of
/// their own beside a valid key, so the latter is looked at only when there is no other.
fn shown_key(headers: &HeaderMap) -> Result<ApiKey, ApiError> {
    let text = |value: &axum::http::HeaderValue| value.to_str().map(str::to_owned).ok();
    let api_key = headers
        .get("x-api-key")
        .and_then(text)
        .filter(|key| !key.is_empty());
    let bearer = || {
        let value = headers.get(header::AUTHORIZATION).and_then(text)?;
        value.strip_prefix("Bearer ").map(str::to_owned)
    };
    let shown = api_key
        .or_else(bearer)
        .ok_or_else(|| ApiError::unauthorized("authorization header is missing"))?;
    shown
        .parse()
        .map_err(|_malformed| skep_control::AuthError::Unknown.into())
}
