//! The content of files over plain HTTP: `GET`, `POST /files` and `POST /files/compose`.
//!
//! What else can be done with files is the RPC service in `filesystem`.

mod compose;
mod content;
mod download;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod metadata;
mod part_name;
mod range;
mod receive;
mod refusable;
mod target;
mod upload;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use skep_wire::headers::ACCESS_TOKEN;

use crate::agent::Agent;
use crate::http::rest_error::RestError;
use crate::http::signature::{self, Operation, Signed};

pub(crate) use compose::compose;
pub(crate) use download::download;
pub(crate) use upload::upload;

/// The query of both routes.
#[derive(Debug, Deserialize)]
pub(crate) struct FileQuery {
    #[serde(default)]
    path: String,
    #[serde(default)]
    username: String,
    signature: Option<String>,
    signature_expiration: Option<i64>,
}

impl FileQuery {
    fn username(&self) -> Option<&str> {
        Some(self.username.as_str()).filter(|name| !name.is_empty())
    }

    /// Lets pass who holds the token, or a link signed with it.
    fn authorize(
        &self,
        agent: &Agent,
        headers: &HeaderMap,
        operation: Operation,
    ) -> Result<(), RestError> {
        let config = agent.settings.current();
        let Some(token) = &config.access_token else {
            return Ok(());
        };
        let signed = Signed {
            path: &self.path,
            operation,
            username: &self.username,
            expiration: self.signature_expiration,
        };
        let shown = headers.get(ACCESS_TOKEN).map(|value| value.as_bytes());
        let now = jiff::Timestamp::now().as_second();
        signature::check(&signed, token, shown, self.signature.as_deref(), now)
            .map_err(|error| RestError::new(StatusCode::UNAUTHORIZED, error.to_string()))
    }
}

type MaybeQuery = Result<Query<FileQuery>, QueryRejection>;

fn parse(query: MaybeQuery) -> Result<FileQuery, RestError> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(rejection) => Err(RestError::bad_request(rejection.body_text())),
    }
}
