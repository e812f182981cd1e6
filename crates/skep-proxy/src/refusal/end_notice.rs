//! Clients that want to be told in words when their sandbox ends.

use http::header::USER_AGENT;
use http::request::Parts;

use crate::refusal::error_format::ErrorFormat;

/// Returns true if a stream to this client ends with an error envelope when its sandbox ends.
///
/// SDKs of a year ago do not look after their sandbox when a connection is reset and would raise
/// the transport's own error. Newer ones do, and take words for something else.
pub(crate) fn wanted(parts: &Parts) -> bool {
    let stream = matches!(ErrorFormat::of(parts), ErrorFormat::ConnectStream(_));
    let agent = parts.headers.get(USER_AGENT);
    stream && agent.is_some_and(|agent| agent.to_str().is_ok_and(is_old))
}

/// The first release of the JavaScript SDK that looks after its sandbox.
const JAVASCRIPT_LOOKS: (u32, u32) = (2, 30);

fn is_old(agent: &str) -> bool {
    // Newer Python SDKs name their RPC library instead of themselves.
    if agent.starts_with("e2b-python-sdk/") {
        return true;
    }
    let Some(rest) = agent.strip_prefix("e2b-js-sdk/") else {
        return false;
    };
    let mut numbers = rest
        .split(['.', ' ', '-'])
        .map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < JAVASCRIPT_LOOKS,
        (Some(_) | None, Some(_) | None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sdks_of_a_year_ago_are_old() {
        for agent in [
            "e2b-python-sdk/2.7.0",
            "e2b-js-sdk/2.7.0",
            "e2b-js-sdk/1.0.0 x",
            "e2b-js-sdk/2.29.9",
        ] {
            assert!(is_old(agent), "{agent}");
        }
        for agent in [
            "connectrpc/0.12.1",
            "e2b-js-sdk/2.49.0 e2b-cli/2.19.0",
            "e2b-js-sdk/2.30.0",
            "e2b-js-sdk/next",
            "e2b-js-sdk/",
            "",
        ] {
            assert!(!is_old(agent), "{agent}");
        }
    }
}
