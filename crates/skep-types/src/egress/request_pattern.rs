//! Requests that a rule lets through, by method and path.

use std::borrow::Cow;

/// Limits on what a pattern lists.
const MOST_METHODS: usize = 16;
const MOST_PATHS: usize = 64;
const LONGEST_METHOD: usize = 32;
const LONGEST_PATH: usize = 512;
/// Times that a path is decoded to look at it: servers behind servers decode it again.
const DECODINGS: usize = 4;

/// Requests with one of these methods to one of these paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestPattern {
    methods: Vec<Box<str>>,
    paths: Vec<PathPattern>,
}

/// Paths of requests, without what follows a question mark. `*` stands for any letters, slashes too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathPattern(Box<str>);

/// A pattern in the words of its owner. An empty list means all of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestPatternWords {
    /// Methods, in capital letters.
    pub methods: Vec<String>,
    /// Paths, which begin with a slash and may have `*`.
    pub paths: Vec<String>,
}

/// The reason for which words are no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestPatternError {
    #[error("a pattern can have at most {MOST_METHODS} methods and {MOST_PATHS} paths")]
    TooMany,
    #[error("`{0}` is not a method: letters are expected, as in GET")]
    Method(String),
    #[error("`{0}` is not a path: it begins with / and has no ?, # or space")]
    Path(String),
}

impl RequestPattern {
    pub(super) fn new(words: RequestPatternWords) -> Result<Self, RequestPatternError> {
        if words.methods.len() > MOST_METHODS || words.paths.len() > MOST_PATHS {
            return Err(RequestPatternError::TooMany);
        }
        let methods = words.methods.into_iter().map(method);
        let paths = words.paths.into_iter().map(path);
        Ok(Self {
            methods: methods.collect::<Result<_, _>>()?,
            paths: paths.collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn words(&self) -> RequestPatternWords {
        let paths = self.paths.iter().map(|path| path.0.to_string());
        RequestPatternWords {
            methods: self.methods.iter().map(ToString::to_string).collect(),
            paths: paths.collect(),
        }
    }

    /// Returns true for a request with this method to this path. What follows a question mark does
    /// not count. A path that leads upwards (`/v1/../admin`), in whatever spelling, is let through by
    /// no pattern that has paths: it means different things to those who read it.
    pub fn allows(&self, method: &str, path: &str) -> bool {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let is_method =
            self.methods.is_empty() || self.methods.iter().any(|known| **known == *method);
        let is_path = || {
            self.paths.is_empty()
                || !leads_upwards(path) && self.paths.iter().any(|known| known.matches(path))
        };
        is_method && is_path()
    }
}

impl PathPattern {
    fn matches(&self, path: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The earliest place for each part leaves the most for those that follow.
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

fn method(text: String) -> Result<Box<str>, RequestPatternError> {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if (1..=LONGEST_METHOD).contains(&text.len()) && text.bytes().all(is_letter) {
        return Ok(text.into());
    }
    Err(RequestPatternError::Method(super::shortened(text)))
}

fn path(text: String) -> Result<PathPattern, RequestPatternError> {
    let is_letter = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
    let is_path = (1..=LONGEST_PATH).contains(&text.len())
        && text.starts_with(['/', '*'])
        && text.bytes().all(is_letter)
        && !leads_upwards(&text);
    if is_path {
        return Ok(PathPattern(text.into()));
    }
    Err(RequestPatternError::Path(super::shortened(text)))
}

/// Returns true if somebody who reads the path could come out above where it begins: by `.` and `..`,
/// encoded or not, once or more often, with `\` for `/` or with a parameter behind.
fn leads_upwards(path: &str) -> bool {
    let mut bytes = Cow::Borrowed(path.as_bytes());
    for _ in 0..DECODINGS {
        let dots = |segment: &[u8]| {
            let name = segment.split(|byte| *byte == b';').next();
            matches!(name, Some(b"." | b".."))
        };
        let mut segments = bytes.split(|byte| matches!(byte, b'/' | b'\\' | 0));
        if segments.any(dots) {
            return true;
        }
        match decoded(&bytes) {
            Some(next) => bytes = Cow::Owned(next),
            None => return false,
        }
    }
    // Encoded more often than anybody does who means well.
    true
}

/// The bytes with `%2e` and the like decoded once; `None` if there is nothing to decode.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        let value = match (byte, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            (_, _) => None,
        };
        let (byte, after) = match value {
            Some((high, low)) => (high << 4 | low, &after[2..]),
            None => (*byte, after),
        };
        decoded.push(byte);
        rest = after;
    }
    (decoded.len() != bytes.len()).then_some(decoded)
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(methods: &[&str], paths: &[&str]) -> Result<RequestPattern, RequestPatternError> {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        RequestPattern::new(RequestPatternWords {
            methods: owned(methods),
            paths: owned(paths),
        })
    }

    #[track_caller]
    fn check(path: &str, allowed: &[&str], refused: &[&str]) {
        let pattern = pattern(&[], &[path]).unwrap();
        for asked in allowed {
            assert!(pattern.allows("GET", asked), "{path} {asked}");
        }
        for asked in refused {
            assert!(!pattern.allows("GET", asked), "{path} {asked}");
        }
    }

    #[test]
    fn a_star_stands_for_any_letters() {
        check(
            "/v1/models",
            &["/v1/models", "/v1/models?x=/../y"],
            &["/v1/models/", "/v1/model"],
        );
        check(
            "/v1/*",
            &["/v1/", "/v1/a", "/v1/a/b", "/v1/a%2Fb"],
            &["/v1", "/v2/a", "//v1/a"],
        );
        check(
            "/repos/*/issues/*.json",
            &["/repos/a/b/issues/1.json", "/repos//issues/.json"],
            &["/repos/a/issues/1.xml", "/repos/issues/1.json"],
        );
        check("*", &["/", "/a", "*"], &[]);
        check("/a*a", &["/aa", "/a/a"], &["/a"]);
    }

    #[test]
    fn a_path_that_leads_upwards_is_let_through_by_no_star() {
        check(
            "/v1/*",
            &["/v1/..a", "/v1/a..", "/v1/...", "/v1/%2e%2ea", "/v1/100%"],
            &[
                "/v1/../admin",
                "/v1/..",
                "/v1/./a",
                "/v1/%2e%2e/admin",
                "/v1/.%2E/admin",
                "/v1/%252e%252e/admin",
                "/v1/%25252525252e/admin",
                "/v1/..%2fadmin",
                "/v1/..%5cadmin",
                "/v1/..\\admin",
                "/v1/..;x/admin",
                "/v1/..%00/admin",
            ],
        );
        let all = pattern(&["GET"], &[]).unwrap();
        assert!(all.allows("GET", "/v1/../admin"));
    }

    #[test]
    fn methods_are_compared_as_they_are() {
        let reads = pattern(&["GET", "HEAD"], &["/*"]).unwrap();
        assert!(reads.allows("GET", "/") && reads.allows("HEAD", "/a"));
        for method in ["POST", "get", "", "GET "] {
            assert!(!reads.allows(method, "/"), "{method}");
        }
    }

    #[test]
    fn what_no_request_can_have_is_refused() {
        for method in ["", "get", "GE T", "G\r\n"] {
            assert!(pattern(&[method], &[]).is_err(), "{method}");
        }
        let long = format!("/{}", "a".repeat(LONGEST_PATH));
        for path in [
            "", "v1", "/a b", "/a?b", "/a#b", "/../a", "/a\\b", "/é", &long,
        ] {
            assert!(pattern(&[], &[path]).is_err(), "{path}");
        }
        pattern(&["GET"; 17], &[]).unwrap_err();
        pattern(&[], &["/"; 65]).unwrap_err();
    }

    proptest! {
        #[test]
        fn a_path_without_stars_matches_itself_alone(
            known in "/[a-c/]{0,6}",
            asked in "/[a-c/]{0,6}",
        ) {
            let pattern = pattern(&[], &[&known]).unwrap();
            prop_assert_eq!(pattern.allows("GET", &asked), known == asked);
        }

        #[test]
        fn a_star_may_be_anything(before in "/[ab]{0,3}", star in "[ab/]{0,4}", after in "[ab]{0,3}") {
            let pattern = pattern(&[], &[&format!("{before}*{after}")]).unwrap();
            let asked = format!("{before}{star}{after}");
            prop_assert!(pattern.allows("GET", &asked));
        }
    }
}
