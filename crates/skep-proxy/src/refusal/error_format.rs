//! Formats of the answers that the proxy gives itself.

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use crate::routing::classify::is_rpc_path;

/// Format of an answer that the proxy gives itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// A page, for a person in a browser.
    Html,
    /// Our JSON, for a program.
    Json,
    /// The error of a Connect procedure that has one answer.
    ConnectUnary,
    /// The last envelope of a Connect procedure that has many answers, in this content type.
    ConnectStream(HeaderValue),
}

impl ErrorFormat {
    /// Reads the format that a caller expects from the head of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        if parts.method == Method::POST && is_rpc_path(parts.uri.path()) {
            return Self::of_procedure(&parts.headers);
        }
        if is_navigation(&parts.headers) {
            Self::Html
        } else {
            Self::Json
        }
    }

    fn of_procedure(headers: &HeaderMap) -> Self {
        match headers.get(CONTENT_TYPE) {
            Some(kind) if kind.as_bytes().starts_with(b"application/connect+") => {
                Self::ConnectStream(kind.clone())
            }
            Some(_) | None => Self::ConnectUnary,
        }
    }
}

const BROWSERS: [&str; 7] = [
    "mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie",
];

/// Returns true if a browser asks for a page, rather than a script in a page for data.
fn is_navigation(headers: &HeaderMap) -> bool {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_ascii_lowercase()
    };
    let agent = text(USER_AGENT.as_str());
    if !BROWSERS.iter().any(|browser| agent.contains(browser)) {
        return false;
    }
    let accept = text(ACCEPT.as_str());
    if accept.contains("application/json") && !accept.contains("text/html") {
        return false;
    }
    match text("sec-fetch-mode").as_str() {
        "cors" | "no-cors" | "same-origin" | "websocket" => false,
        "navigate" => true,
        _ => !headers.contains_key("x-requested-with"),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const FIREFOX: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11) Firefox/140.0");

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: &ErrorFormat) {
        let mut request = Request::get("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(&ErrorFormat::of(&parts), expected, "{headers:?}");
    }

    #[test]
    fn a_browser_that_navigates_gets_a_page() {
        check(&[FIREFOX], &ErrorFormat::Html);
        check(
            &[FIREFOX, ("accept", "text/html,application/json")],
            &ErrorFormat::Html,
        );
        check(
            &[
                FIREFOX,
                ("sec-fetch-mode", "navigate"),
                ("x-requested-with", "x"),
            ],
            &ErrorFormat::Html,
        );
    }

    #[test]
    fn programs_and_scripts_get_json() {
        check(&[], &ErrorFormat::Json);
        check(
            &[("user-agent", "curl/8"), ("accept", "text/html")],
            &ErrorFormat::Json,
        );
        check(
            &[FIREFOX, ("accept", "application/json")],
            &ErrorFormat::Json,
        );
        check(
            &[FIREFOX, ("x-requested-with", "XMLHttpRequest")],
            &ErrorFormat::Json,
        );
        for mode in ["cors", "no-cors", "same-origin", "websocket"] {
            check(&[FIREFOX, ("sec-fetch-mode", mode)], &ErrorFormat::Json);
        }
    }

    #[test]
    fn remote_procedures_are_answered_in_their_own_way() {
        let of = |path: &str, kind: &str| {
            let request = Request::post(path)
                .header("content-type", kind)
                .body(())
                .unwrap();
            ErrorFormat::of(&request.into_parts().0)
        };
        assert_eq!(
            of("/process.Process/List", "application/json"),
            ErrorFormat::ConnectUnary
        );
        assert_eq!(
            of("/filesystem.Filesystem/Stat", "application/proto"),
            ErrorFormat::ConnectUnary
        );
        let stream = "application/connect+json";
        assert_eq!(
            of("/process.Process/Start", stream),
            ErrorFormat::ConnectStream(HeaderValue::from_static(stream))
        );
        assert_eq!(of("/files", "application/json"), ErrorFormat::Json);
    }
}
