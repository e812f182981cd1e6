//! The sandbox that a path names.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use skep_types::SandboxId;

use crate::error::ApiError;

/// `ID` or `ID-CLIENTID`, as old clients write it.
///
/// A name of that form that could not be one of ours is like one that does not exist; any other
/// form is an error of its own.
#[derive(Debug)]
pub(crate) struct SandboxPath {
    name: String,
}

impl SandboxPath {
    /// The sandbox's id.
    pub(crate) fn id(&self) -> Result<SandboxId, ApiError> {
        self.name
            .parse()
            .map_err(|_| ApiError::sandbox_not_found(&self.name))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let word = |text: &str| {
            let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !text.is_empty() && text.bytes().all(letter)
        };
        let (name, client) = match text.split_once('-') {
            Some((name, client)) => (name, Some(client)),
            None => (text, None),
        };
        if word(name) && client.is_none_or(word) {
            let name = name.to_owned();
            return Ok(Self { name });
        }
        Err(ApiError::bad_request(
            "invalid_sandbox_id",
            "Invalid sandbox ID",
        ))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SandboxPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let segment = PathSegment::from_request_parts(parts, state).await?;
        Self::parse(&segment.0)
    }
}

/// The one parameter of a path, decoded.
#[derive(Debug)]
pub(crate) struct PathSegment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(segment)) => Ok(Self(segment)),
            Err(rejection) => Err(ApiError::validation(rejection.body_text())),
        }
    }
}

/// The two parameters of a path, decoded.
#[derive(Debug)]
pub(crate) struct PathSegments(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegments {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path((first, second))) => Ok(Self(first, second)),
            Err(rejection) => Err(ApiError::validation(rejection.body_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_carry_a_client_id() {
        let id = SandboxId::random();
        for text in [id.to_string(), format!("{id}-6532622b")] {
            assert_eq!(SandboxPath::parse(&text).unwrap().id(), Ok(id.clone()));
        }
    }

    #[test]
    fn a_name_that_is_not_ours_is_not_found_and_a_bad_form_is_refused() {
        for text in ["non-existing", "not-found", "nonexistingsandbox"] {
            let name = text.split('-').next().unwrap_or(text);
            let error = SandboxPath::parse(text).unwrap().id().unwrap_err();
            assert_eq!(error, ApiError::sandbox_not_found(name));
        }
        for text in ["", "a-b-c", "ABC", "a/b", "a.b", "-a", "a-", "é"] {
            SandboxPath::parse(text).expect_err(text);
        }
    }
}
