//! `GET /.well-known/openid-configuration` and `GET /.well-known/jwks.json`
//!
//! Whoever gets an identity token of a sandbox asks here how to verify it. Nobody needs a key for that.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, header};
use skep_control::{IdentityError, PublicKey};
use skep_telemetry::Chain;
use skep_wire::rest;

use crate::error::ApiError;
use crate::router::Edge;

/// Path of the keys below the issuer.
const KEYS: &str = "/.well-known/jwks.json";

/// Keys are published an hour before they sign, so nobody misses one who keeps them for less.
const CACHE_HEADER: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "public, max-age=300")];

type Cached<T> = ([(HeaderName, &'static str); 1], Json<T>);

/// Configuration of the issuer of tokens.
pub(crate) async fn configuration(
    State(edge): State<Edge>,
) -> Result<Cached<rest::OpenIdConfiguration>, ApiError> {
    let issuer = edge
        .control()
        .identity_issuer()
        .ok_or(IdentityError::NoIssuer)?
        .url();
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let configuration = rest::OpenIdConfiguration {
        issuer: issuer.to_owned(),
        jwks_uri: format!("{issuer}{KEYS}"),
        response_types_supported: texts(&["id_token"]),
        subject_types_supported: texts(&["public"]),
        id_token_signing_alg_values_supported: texts(&["ES256"]),
        claims_supported: texts(&[
            "iss",
            "sub",
            "aud",
            "iat",
            "nbf",
            "exp",
            "jti",
            "team",
            "template",
            "sandbox",
            "execution",
        ]),
    };
    Ok((CACHE_HEADER, Json(configuration)))
}

/// The keys by which tokens are verified.
pub(crate) async fn keys(State(edge): State<Edge>) -> Result<Cached<rest::IdentityKeys>, ApiError> {
    let keys = edge
        .control()
        .identity_keys()
        .await?
        .into_iter()
        .map(shown)
        .collect();
    Ok((CACHE_HEADER, Json(rest::IdentityKeys { keys })))
}

fn shown(key: PublicKey) -> rest::IdentityKey {
    rest::IdentityKey {
        kty: "EC".to_owned(),
        crv: "P-256".to_owned(),
        x: key.x,
        y: key.y,
        kid: key.id,
        alg: "ES256".to_owned(),
        purpose: "sig".to_owned(),
    }
}

impl From<IdentityError> for ApiError {
    fn from(error: IdentityError) -> Self {
        tracing::error!(error = %Chain(&error), "keys of identity tokens are not to be had");
        Self::unavailable(
            "identity_unavailable",
            "identity tokens are not available at the moment",
        )
    }
}
