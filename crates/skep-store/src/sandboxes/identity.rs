//! Identity tokens of a sandbox in a column.

use skep_types::IdentityTokens;

use crate::column;

/// Audiences by name; nothing if there are none.
pub(super) fn encode(tokens: &IdentityTokens) -> Option<String> {
    let audiences = tokens.audiences();
    let text = || serde_json::to_string(audiences).expect("texts are JSON");
    (!tokens.is_empty()).then(text)
}

pub(super) fn decode(text: Option<&str>) -> rusqlite::Result<IdentityTokens> {
    let Some(text) = text else {
        return Ok(IdentityTokens::default());
    };
    let audiences =
        serde_json::from_str(text).map_err(|error| column::unreadable("identity_tokens", error))?;
    Ok(IdentityTokens::from_record(audiences))
}
