//! Paths of the agent that only the server may use.

use percent_encoding::percent_decode_str;
use skep_wire::agent::CONTROL_PATHS;

/// Returns true if a request for `path` could reach a control route of the agent.
///
/// The agent matches paths as they are written, so only the plain spelling is a control route
/// today. That is a property of one router in one version: here every spelling that any server
/// might read as a control route counts, and so does any path that has two readings. No route
/// of the agent needs an escape, an empty segment or a dot segment.
pub(crate) fn is_reserved(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let dotted = path
        .split('/')
        .any(|segment| segment == "." || segment == "..");
    let odd = !path.bytes().all(plain) || path.contains("//") || !path.starts_with('/') || dotted;
    odd || lies_below(path, CONTROL_PATHS)
}

/// Returns true if a request for `path` could reach what the proxy alone may ask of an interpreter.
///
/// Templates may bring a service of their own on the interpreter's port, so here odd spellings
/// are let through unless they mean our own path, as they are written or once dots are resolved:
/// which of the two a server goes by is its own affair.
pub(crate) fn is_reserved_for_interpreter(path: &str) -> bool {
    let once = percent_decode_str(path).decode_utf8_lossy();
    let twice = percent_decode_str(&once).decode_utf8_lossy();
    [path, &once, &twice].into_iter().any(|reading| {
        lies_below(reading, OF_INTERPRETER) || lies_below(&resolved(reading), OF_INTERPRETER)
    })
}

const OF_INTERPRETER: &[&str] = &["/skep"];

fn lies_below(path: &str, roots: &[&str]) -> bool {
    let path = path.to_ascii_lowercase();
    roots.iter().any(|root| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn resolved(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_control_route_is_reserved() {
        for path in CONTROL_PATHS {
            assert!(is_reserved(path), "{path}");
            assert!(is_reserved(&format!("{path}/")), "{path}/");
            assert!(is_reserved(&format!("{path}/below")), "{path}/below");
        }
        for path in [
            "//init",
            "/%69nit",
            "/%2569nit",
            "/./init",
            "/files/../init",
            "/INIT",
            "/init;x",
            "/init%2F",
            "/health//",
            "/%2e/init",
            "*",
            "",
        ] {
            assert!(is_reserved(path), "{path}");
        }
    }

    #[test]
    fn what_clients_ask_of_the_agent_is_open() {
        for path in [
            "/",
            "/health",
            "/files",
            "/files/compose",
            "/envs",
            "/metrics",
            "/process.Process/Start",
            "/filesystem.Filesystem/ListDir",
            "/initial",
            "/skeptic",
        ] {
            assert!(!is_reserved(path), "{path}");
        }
    }

    #[test]
    fn only_our_own_paths_are_reserved_on_the_interpreters_port() {
        for path in [
            "/skep",
            "/skep/cancel",
            "//skep/x",
            "/%73kep/cancel",
            "/a/../SKEP",
            "/a%2f..%2fskep",
            "/skep/../execute",
            "/skep///../../x",
            "/skep/%2e%2e/execute",
        ] {
            assert!(is_reserved_for_interpreter(path), "{path}");
        }
        for path in [
            "/execute",
            "/contexts/a%20b/restart",
            "/init",
            "/",
            "//",
            "/skepper",
        ] {
            assert!(!is_reserved_for_interpreter(path), "{path}");
        }
    }
}
