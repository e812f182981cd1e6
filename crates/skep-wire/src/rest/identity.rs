//! Bodies by which others verify identity tokens, as OpenID Connect has them.

use serde::{Deserialize, Serialize};

/// `GET /.well-known/openid-configuration`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIdConfiguration {
    /// The `iss` of every token.
    pub issuer: String,
    /// URL of the keys.
    pub jwks_uri: String,
    /// Answers that a client may ask for: none, because nobody logs in here.
    pub response_types_supported: Vec<String>,
    /// Kinds of subjects: the same for everybody.
    pub subject_types_supported: Vec<String>,
    /// Algorithms of signatures.
    pub id_token_signing_alg_values_supported: Vec<String>,
    /// Claims in tokens.
    pub claims_supported: Vec<String>,
}

/// `GET /.well-known/jwks.json`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityKeys {
    /// The keys; a token names one of them.
    pub keys: Vec<IdentityKey>,
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityKey {
    /// Family of the algorithm.
    pub kty: String,
    /// The curve.
    pub crv: String,
    /// Horizontal coordinate.
    pub x: String,
    /// Vertical coordinate.
    pub y: String,
    /// Its name in tokens.
    pub kid: String,
    /// The algorithm.
    pub alg: String,
    /// The purpose: signatures.
    #[serde(rename = "use")]
    pub purpose: String,
}
