//! Answers that the proxy gives itself.

pub(crate) mod end_notice;
pub(crate) mod envelope;
pub(crate) mod error_format;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use skep_types::SandboxId;

use crate::request::headers;
use crate::routing::classify::Misaddressed;
use error_format::ErrorFormat;

/// Reason for which a request was not passed on.
///
/// The statuses and sentences are the contract with the SDKs, which choose their exceptions by
/// them: `was not found` is a sandbox that is gone, `port is not open` one that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Misaddressed(Misaddressed),
    SandboxNotFound {
        name: String,
        /// The end of it, for those who may know.
        departure: Option<String>,
    },
    PortClosed {
        id: SandboxId,
        port: u16,
    },
    NoAnswer {
        id: SandboxId,
        port: u16,
    },
    Locked {
        id: SandboxId,
    },
    TrafficTokenMissing {
        id: SandboxId,
    },
    TrafficTokenInvalid {
        id: SandboxId,
    },
    LimitReached {
        id: SandboxId,
    },
    Transitioning {
        id: SandboxId,
    },
    NotResumed {
        id: SandboxId,
    },
    TooManyConnections {
        id: SandboxId,
        limit: usize,
    },
    Reserved {
        path: String,
    },
    Unsupported,
    NotTls,
    ServerFull,
    AddressFull,
    AnonymousFull,
}

/// The sentence about a sandbox that is not there, with its end for those who may know.
pub(crate) fn not_found(departure: Option<&str>) -> String {
    match departure {
        Some(departure) => format!("The sandbox was not found: it {departure}"),
        None => "The sandbox was not found".to_owned(),
    }
}

#[derive(Serialize)]
struct Body<'a, C: Serialize> {
    message: &'a str,
    code: C,
    #[serde(flatten)]
    details: Details<'a>,
}

#[derive(Default, Serialize)]
struct Details<'a> {
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    sandbox: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(rename = "connectionLimit", skip_serializing_if = "Option::is_none")]
    connection_limit: Option<usize>,
}

impl Refusal {
    /// The answer, for whoever reads it.
    pub(crate) fn render(&self, format: &ErrorFormat) -> Response<Bytes> {
        let mut response = self.render_for(format);
        headers::forbid_guessing(response.headers_mut());
        match self {
            Self::ServerFull
            | Self::AddressFull
            | Self::AnonymousFull
            | Self::Transitioning { .. }
            | Self::NotResumed { .. } => {
                let soon = HeaderValue::from_static("1");
                response.headers_mut().insert(RETRY_AFTER, soon);
            }
            Self::Misaddressed(_)
            | Self::SandboxNotFound { .. }
            | Self::PortClosed { .. }
            | Self::NoAnswer { .. }
            | Self::Locked { .. }
            | Self::TrafficTokenMissing { .. }
            | Self::TrafficTokenInvalid { .. }
            | Self::LimitReached { .. }
            | Self::TooManyConnections { .. }
            | Self::Reserved { .. }
            | Self::Unsupported
            | Self::NotTls => {}
        }
        response
    }

    fn render_for(&self, format: &ErrorFormat) -> Response<Bytes> {
        let status = self.status();
        match format {
            ErrorFormat::Html => answer(status, "text/html; charset=utf-8", self.page()),
            ErrorFormat::Json => answer(status, JSON, self.json(status.as_u16())),
            ErrorFormat::ConnectUnary => answer(status, JSON, self.json(self.procedure_code())),
            // A stream reads nothing but envelopes, and JavaScript loses the text of a plain
            // status. The 502s stay plain: every SDK takes them for what they are.
            ErrorFormat::ConnectStream(_) if status == StatusCode::BAD_GATEWAY => {
                answer(status, JSON, self.json(self.procedure_code()))
            }
            ErrorFormat::ConnectStream(kind) => {
                let body = envelope::end_with_error(self.procedure_code(), &self.message());
                let mut response = answer(StatusCode::OK, JSON, body);
                response.headers_mut().insert(CONTENT_TYPE, kind.clone());
                response
            }
        }
    }

    /// Returns true if the sandbox cannot answer a browser's question itself, and the page that
    /// asks is to read this when it sends its request.
    pub(crate) fn answers_preflight(&self) -> bool {
        match self {
            Self::SandboxNotFound { .. }
            | Self::Locked { .. }
            | Self::TrafficTokenMissing { .. }
            | Self::TrafficTokenInvalid { .. } => true,
            Self::Misaddressed(_)
            | Self::PortClosed { .. }
            | Self::NoAnswer { .. }
            | Self::LimitReached { .. }
            | Self::Transitioning { .. }
            | Self::NotResumed { .. }
            | Self::TooManyConnections { .. }
            | Self::Reserved { .. }
            | Self::Unsupported
            | Self::NotTls
            | Self::ServerFull
            | Self::AddressFull
            | Self::AnonymousFull => false,
        }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Misaddressed(_) | Self::NotTls => StatusCode::BAD_REQUEST,
            Self::SandboxNotFound { .. } | Self::PortClosed { .. } | Self::NoAnswer { .. } => {
                StatusCode::BAD_GATEWAY
            }
            Self::TooManyConnections { .. } | Self::AddressFull | Self::LimitReached { .. } => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Locked { .. }
            | Self::TrafficTokenMissing { .. }
            | Self::TrafficTokenInvalid { .. } => StatusCode::FORBIDDEN,
            Self::Transitioning { .. } => StatusCode::CONFLICT,
            Self::Reserved { .. } => StatusCode::NOT_FOUND,
            Self::Unsupported => StatusCode::METHOD_NOT_ALLOWED,
            Self::ServerFull | Self::AnonymousFull | Self::NotResumed { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    fn procedure_code(&self) -> &'static str {
        match self {
            Self::Misaddressed(_) | Self::NotTls => "invalid_argument",
            Self::SandboxNotFound { .. }
            | Self::PortClosed { .. }
            | Self::NoAnswer { .. }
            | Self::ServerFull
            | Self::AnonymousFull
            | Self::NotResumed { .. } => "unavailable",
            Self::TooManyConnections { .. } | Self::AddressFull | Self::LimitReached { .. } => {
                "resource_exhausted"
            }
            Self::Locked { .. }
            | Self::TrafficTokenMissing { .. }
            | Self::TrafficTokenInvalid { .. } => "permission_denied",
            Self::Transitioning { .. } => "aborted",
            Self::Reserved { .. } => "not_found",
            Self::Unsupported => "unimplemented",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Misaddressed(Misaddressed::MissingHeader(name)) => {
                format!("Missing header: {name}")
            }
            Self::Misaddressed(Misaddressed::InvalidHost) => {
                "Invalid host: one name or address with an optional port is expected".to_owned()
            }
            Self::Misaddressed(Misaddressed::InvalidPort) => {
                "Invalid port: a number from 1 to 65535 is expected".to_owned()
            }
            Self::Misaddressed(Misaddressed::InvalidSandboxId) => "Invalid sandbox ID".to_owned(),
            Self::SandboxNotFound { departure, .. } => not_found(departure.as_deref()),
            Self::PortClosed { .. } => "The sandbox is running but port is not open".to_owned(),
            Self::NoAnswer { .. } => {
                "The service in the sandbox closed the connection without an answer".to_owned()
            }
            Self::Locked { .. } => {
                "The sandbox is paused, and goes on only for a request with its access token"
                    .to_owned()
            }
            Self::TrafficTokenMissing { .. } => "Sandbox is secured with traffic access token. \
                 Token header 'e2b-traffic-access-token' is missing"
                .to_owned(),
            Self::TrafficTokenInvalid { .. } => "Sandbox is secured with traffic access token. \
                 Provided token in header 'e2b-traffic-access-token' is invalid"
                .to_owned(),
            Self::LimitReached { .. } => "Sandbox limit reached".to_owned(),
            Self::Transitioning { .. } => {
                "The sandbox is still transitioning. Try again in a moment.".to_owned()
            }
            Self::NotResumed { .. } => {
                "The sandbox could not be resumed; it is paused as it was".to_owned()
            }
            Self::TooManyConnections { limit, .. } => {
                format!("The sandbox already serves {limit} requests; wait until one has ended")
            }
            Self::Reserved { .. } => "This endpoint is reserved for the E2B control plane \
                 and is not reachable through the sandbox URL"
                .to_owned(),
            Self::Unsupported => "CONNECT is not supported".to_owned(),
            Self::NotTls => "This port speaks TLS: use https:// instead of http://".to_owned(),
            Self::ServerFull => "The server has no connection left; try again".to_owned(),
            Self::AddressFull => {
                "Your address has as many connections as it may; close one".to_owned()
            }
            Self::AnonymousFull => "The server is busy and serves only requests with a key \
                 or a sandbox's token; try again"
                .to_owned(),
        }
    }

    fn details(&self) -> Details<'_> {
        fn sandbox(name: &str) -> Details<'_> {
            Details {
                sandbox: Some(name),
                ..Details::default()
            }
        }
        match self {
            // Named by a token or a signature, it has no name we know.
            Self::SandboxNotFound { name, .. } if name.is_empty() => Details::default(),
            Self::SandboxNotFound { name, .. } => sandbox(name),
            Self::PortClosed { id, port } | Self::NoAnswer { id, port } => Details {
                port: Some(*port),
                ..sandbox(id.as_str())
            },
            Self::Locked { id }
            | Self::TrafficTokenMissing { id }
            | Self::TrafficTokenInvalid { id }
            | Self::LimitReached { id }
            | Self::Transitioning { id }
            | Self::NotResumed { id } => sandbox(id.as_str()),
            Self::TooManyConnections { id, limit } => Details {
                connection_limit: Some(*limit),
                ..sandbox(id.as_str())
            },
            Self::Reserved { path } => Details {
                path: Some(path),
                ..Details::default()
            },
            Self::Misaddressed(_)
            | Self::Unsupported
            | Self::NotTls
            | Self::ServerFull
            | Self::AddressFull
            | Self::AnonymousFull => Details::default(),
        }
    }

    fn json(&self, code: impl Serialize) -> Bytes {
        let body = Body {
            message: &self.message(),
            code,
            details: self.details(),
        };
        serde_json::to_vec(&body)
            .expect("text and numbers always serialise")
            .into()
    }

    fn heading(&self) -> &'static str {
        match self {
            Self::Misaddressed(_) => "Invalid Address",
            Self::SandboxNotFound { .. } => "Sandbox Not Found",
            Self::PortClosed { .. } => "Closed Port",
            Self::NoAnswer { .. } => "No Answer",
            Self::Locked { .. } => "Access Token Wanted",
            Self::TrafficTokenMissing { .. } => "Missing Traffic Access Token",
            Self::TrafficTokenInvalid { .. } => "Invalid Traffic Access Token",
            Self::LimitReached { .. } => "Sandbox Limit Reached",
            Self::Transitioning { .. } | Self::NotResumed { .. } => "Sandbox Not Ready",
            Self::TooManyConnections { .. } => "Too Many Connections",
            Self::Reserved { .. } => "Not Found",
            Self::Unsupported => "Not Supported",
            Self::NotTls => "TLS Wanted",
            Self::ServerFull | Self::AnonymousFull => "Server Full",
            Self::AddressFull => "Too Many Connections",
        }
    }

    /// A page for a person. Everything put into it is letters, digits and our own words.
    fn page(&self) -> Bytes {
        let heading = self.heading();
        let sentence = match self {
            Self::PortClosed { port, .. } => format!(
                "The sandbox is running, but no service is listening on port {port}: there is no \
                 service running on port {port} that others can reach. Start one, or look for it \
                 on another port."
            ),
            Self::Misaddressed(_)
            | Self::SandboxNotFound { .. }
            | Self::NoAnswer { .. }
            | Self::Locked { .. }
            | Self::TrafficTokenMissing { .. }
            | Self::TrafficTokenInvalid { .. }
            | Self::LimitReached { .. }
            | Self::Transitioning { .. }
            | Self::NotResumed { .. }
            | Self::TooManyConnections { .. }
            | Self::Reserved { .. }
            | Self::Unsupported
            | Self::NotTls
            | Self::ServerFull
            | Self::AddressFull
            | Self::AnonymousFull => format!("{}.", self.message()),
        };
        let details = self.details();
        let sandbox = details
            .sandbox
            .map(|name| format!("<p>Sandbox <code>{name}</code></p>"))
            .unwrap_or_default();
        // Clients of two generations look for it in two spellings.
        let visible = sentence_case(heading);
        format!(
            "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>{heading}</title>\
             <style>body{{font:1rem/1.5 system-ui;max-width:36rem;margin:15vh auto;padding:0 1rem;\
             color-scheme:light dark}}</style></head>\
             <body><h1>{visible}</h1><p>{sentence}</p>{sandbox}</body></html>"
        )
        .into()
    }
}

/// A heading with a capital at its beginning alone, unless a word is all capitals.
fn sentence_case(heading: &str) -> String {
    let mut words = heading.split(' ');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |sentence, word| {
        let is_name = word.chars().all(char::is_uppercase);
        let word = if is_name {
            word.to_owned()
        } else {
            word.to_lowercase()
        };
        sentence + " " + &word
    })
}

const JSON: &str = "application/json; charset=utf-8";

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A script in a page of another origin may read why it was refused.
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SandboxId {
        "i0123456789abcdefghij".parse().unwrap()
    }

    #[track_caller]
    fn check(refusal: &Refusal, format: &ErrorFormat, expected: &str) {
        let response = refusal.render(format);
        let body = String::from_utf8_lossy(response.body());
        assert_eq!(format!("{} {body}", response.status().as_u16()), expected);
    }

    #[test]
    fn programs_read_the_sentences_of_the_contract() {
        let name = id().to_string();
        check(
            &Refusal::SandboxNotFound {
                name: name.clone(),
                departure: None,
            },
            &ErrorFormat::Json,
            r#"502 {"message":"The sandbox was not found","code":502,"sandboxId":"i0123456789abcdefghij"}"#,
        );
        check(
            &Refusal::SandboxNotFound {
                name,
                departure: Some("ended 06:16 UTC: out_of_memory (512 MiB)".to_owned()),
            },
            &ErrorFormat::Json,
            r#"502 {"message":"The sandbox was not found: it ended 06:16 UTC: out_of_memory (512 MiB)","code":502,"sandboxId":"i0123456789abcdefghij"}"#,
        );
        check(
            &Refusal::PortClosed { id: id(), port: 80 },
            &ErrorFormat::Json,
            r#"502 {"message":"The sandbox is running but port is not open","code":502,"sandboxId":"i0123456789abcdefghij","port":80}"#,
        );
        check(
            &Refusal::TrafficTokenMissing { id: id() },
            &ErrorFormat::Json,
            r#"403 {"message":"Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing","code":403,"sandboxId":"i0123456789abcdefghij"}"#,
        );
        check(
            &Refusal::TrafficTokenInvalid { id: id() },
            &ErrorFormat::Json,
            r#"403 {"message":"Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid","code":403,"sandboxId":"i0123456789abcdefghij"}"#,
        );
        check(
            &Refusal::TooManyConnections { id: id(), limit: 7 },
            &ErrorFormat::Json,
            r#"429 {"message":"The sandbox already serves 7 requests; wait until one has ended","code":429,"sandboxId":"i0123456789abcdefghij","connectionLimit":7}"#,
        );
        check(
            &Refusal::Reserved {
                path: "/init".to_owned(),
            },
            &ErrorFormat::Json,
            r#"404 {"message":"This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL","code":404,"path":"/init"}"#,
        );
        check(
            &Refusal::Misaddressed(Misaddressed::MissingHeader("E2b-Sandbox-Port")),
            &ErrorFormat::Json,
            r#"400 {"message":"Missing header: E2b-Sandbox-Port","code":400}"#,
        );
    }

    #[test]
    fn procedures_read_codes_in_words() {
        let name = "gone".to_owned();
        let not_found = Refusal::SandboxNotFound {
            name,
            departure: None,
        };
        let plain = r#"502 {"message":"The sandbox was not found","code":"unavailable","sandboxId":"gone"}"#;
        check(&not_found, &ErrorFormat::ConnectUnary, plain);
        let stream =
            ErrorFormat::ConnectStream(HeaderValue::from_static("application/connect+json"));
        check(&not_found, &stream, plain);
        let full = Refusal::TooManyConnections { id: id(), limit: 7 };
        let response = full.render(&stream);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/connect+json");
        assert_eq!(response.body()[0], 2, "an end envelope");
        assert!(String::from_utf8_lossy(&response.body()[5..]).contains("resource_exhausted"));
    }

    #[test]
    fn people_read_a_page_that_names_sandbox_and_port() {
        let page = |refusal: Refusal| {
            let response = refusal.render(&ErrorFormat::Html);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
            let page = String::from_utf8(response.body().to_vec()).unwrap();
            assert!(
                page.starts_with("<!DOCTYPE html><html") && page.ends_with("</html>"),
                "{page}"
            );
            page
        };
        let gone = page(Refusal::SandboxNotFound {
            name: "igone".to_owned(),
            departure: None,
        });
        assert!(
            gone.contains("Sandbox Not Found") && gone.contains("igone"),
            "{gone}"
        );
        assert!(gone.contains("<h1>Sandbox not found</h1>"), "{gone}");
        let closed = page(Refusal::PortClosed {
            id: id(),
            port: 8123,
        });
        assert!(
            closed.contains("no service running on port 8123"),
            "{closed}"
        );
        assert!(
            closed.contains("no service is listening on port 8123"),
            "{closed}"
        );
        assert!(closed.contains(id().as_str()), "{closed}");
        let missing = page(Refusal::TrafficTokenMissing { id: id() });
        assert!(
            missing.contains("Missing Traffic Access Token"),
            "{missing}"
        );
        assert!(
            missing.contains("Missing traffic access token"),
            "{missing}"
        );
        let invalid = page(Refusal::TrafficTokenInvalid { id: id() });
        assert!(
            invalid.contains("Invalid Traffic Access Token"),
            "{invalid}"
        );
        assert!(
            invalid.contains("Invalid traffic access token"),
            "{invalid}"
        );
        let reserved = page(Refusal::Reserved {
            path: "/init<script>".to_owned(),
        });
        assert!(!reserved.contains("script"), "{reserved}");
    }
}
