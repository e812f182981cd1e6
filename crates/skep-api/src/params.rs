//! Extractors for query parameters.

use std::ops::RangeInclusive;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use jiff::Timestamp;

use crate::error::ApiError;

/// The query of a request. Unknown parameters are ignored; of a repeated one the first counts,
/// except for lists.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(pairs)| Self(pairs))
            .map_err(ApiError::validation)
    }
}

impl Params {
    /// A text, if there is one.
    pub(crate) fn text(&self, name: &'static str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// The members of a list: joined by commas, or given one by one.
    pub(crate) fn list(&self, name: &'static str) -> Vec<&str> {
        let members = self.all(name).flat_map(|value| value.split(','));
        members.filter(|member| !member.is_empty()).collect()
    }

    /// A whole number within bounds, if there is one.
    pub(crate) fn number(
        &self,
        name: &'static str,
        bounds: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::validation(format_args!(
                "parameter `{name}` must be a number from {} to {}",
                bounds.start(),
                bounds.end()
            ))),
        }
    }

    /// Page size: 1 to 100, or `usual` if nothing was said.
    pub(crate) fn page_size(&self, usual: u32) -> Result<u32, ApiError> {
        let size = self.number("limit", 1..=100)?;
        Ok(size
            .and_then(|size| u32::try_from(size).ok())
            .unwrap_or(usual))
    }

    /// A moment, if there is one.
    pub(crate) fn time(&self, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        // A plus that nobody encoded arrives as a space.
        let time = text.replace(' ', "+").parse().map_err(|_| {
            ApiError::validation(format_args!("parameter `{name}` must be an RFC 3339 time"))
        })?;
        Ok(Some(time))
    }

    /// A moment in seconds or milliseconds since 1970, if there is one. Clients differ, and no
    /// second of our time has as many digits as a millisecond.
    pub(crate) fn unix_time(&self, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
        const SECONDS_END: i64 = 100_000_000_000;
        let Some(number) = self.number(name, 0..=i64::MAX)? else {
            return Ok(None);
        };
        let time = if number > SECONDS_END {
            Timestamp::from_millisecond(number)
        } else {
            Timestamp::from_second(number)
        };
        time.map(Some).map_err(|_| {
            ApiError::validation(format_args!("parameter `{name}` is beyond the end of time"))
        })
    }

    /// One of several words, if there is one.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        self.text(name)
            .map(|text| choose(name, text, words))
            .transpose()
    }

    /// Some of several words.
    pub(crate) fn words<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Vec<T>, ApiError> {
        let given = self.list(name);
        let chosen = given.into_iter().map(|text| choose(name, text, words));
        chosen.collect()
    }

    fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(given, _)| given == name);
        named.map(|(_, value)| value.as_str())
    }
}

fn choose<T: Copy>(name: &'static str, text: &str, words: &[(&str, T)]) -> Result<T, ApiError> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        ApiError::validation(format_args!(
            "parameter `{name}` must be one of {}",
            words.join(", ")
        ))
    })
}
