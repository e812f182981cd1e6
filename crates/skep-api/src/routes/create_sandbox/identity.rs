//! Identity tokens of a new sandbox.

use skep_types::{Egress, IdentityTokenError, IdentityTokenWords, IdentityTokens};
use skep_wire::rest::{IdentityRequest, IdentityToken};

use crate::error::ApiError;

/// The tokens that are asked for.
pub(super) fn read(asked: Option<IdentityRequest>) -> Result<IdentityTokens, ApiError> {
    let tokens = asked.unwrap_or_default().tokens.unwrap_or_default();
    let words = |token: IdentityToken| IdentityTokenWords {
        audience: token.audience,
        token_type: token.token_type,
    };
    let tokens = tokens.into_iter().map(|(name, token)| (name, words(token)));
    Ok(IdentityTokens::new(tokens)?)
}

/// Refuses rules that name other tokens.
pub(super) fn check(tokens: &IdentityTokens, egress: &Egress) -> Result<(), ApiError> {
    let checked = tokens.check(egress.request_rules());
    checked.map_err(|unknown| ApiError::bad_request("validation_error", unknown.to_string()))
}

impl From<IdentityTokenError> for ApiError {
    fn from(error: IdentityTokenError) -> Self {
        Self::bad_request("validation_error", error.to_string())
    }
}
