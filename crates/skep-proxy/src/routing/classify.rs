//! Classification of requests by destination.
//!
//! One port serves the API and every sandbox, and the clients of several years do not agree on
//! how to name a sandbox. The order of the questions is the contract:
//!
//! 1. A host name `<port>-<id>.<domain>` names a sandbox, whatever the headers say: the SDKs
//!    send routing headers with every request, and a service of the user may have API keys of
//!    its own.
//! 2. `X-API-KEY` is for the API, even beside routing headers: one old SDK sends both.
//! 3. `E2b-Sandbox-Id` and `E2b-Sandbox-Port` name a sandbox on any host name.
//! 4. An access token alone, on paths that only an agent has, names the sandbox it opens.
//! 5. A signed file URL names the sandbox whose token signed it.
//! 6. Everything else is for the API.

use http::HeaderValue;
use http::request::Parts;
use skep_types::SandboxId;
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::{ACCESS_TOKEN, API_KEY, SANDBOX_ID, SANDBOX_PORT};

use crate::ProxyConfig;
use crate::routing::authority::Authority;

/// The destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The REST API.
    Api,
    /// A port of a sandbox.
    Sandbox(Target),
    /// A sandbox that cannot exist: the name is well-formed, but we never gave such a name.
    NoSuchSandbox {
        /// The name as it was asked for, which is no id of ours.
        name: String,
    },
    /// The agent of the sandbox that the request's `X-Access-Token` opens.
    TokenHolder,
    /// The agent of the sandbox whose token signed the URL.
    Signer,
    /// A malformed address: the request says whom it is for, but not in a way that means anything.
    Misaddressed(Misaddressed),
}

/// A port of a sandbox, and how the request named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The sandbox that is addressed.
    pub id: SandboxId,
    /// The port in the sandbox.
    pub port: u16,
    /// Part of the request that named the sandbox.
    pub named_by: NamedBy,
}

/// Parts of a request that can name a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The host name. Routing headers, if any, are the business of the service.
    Host,
    /// The routing headers, which have done their work then.
    Headers,
}

/// Errors in the address of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misaddressed {
    /// No host is named, or several, or something else than a host with a port.
    InvalidHost,
    /// One routing header is there without the other.
    MissingHeader(&'static str),
    /// The port is no number between 1 and 65535.
    InvalidPort,
    /// The sandbox's name holds characters that no name has.
    InvalidSandboxId,
}

/// Says whom a request is for, from its head alone.
pub fn classify(parts: &Parts, config: &ProxyConfig) -> Destination {
    let Ok(authority) = Authority::of(parts) else {
        return Destination::Misaddressed(Misaddressed::InvalidHost);
    };
    let named = authority.map_or(HostName::Neutral, |authority| {
        read_host(&authority.host(), config.domain.as_str())
    });
    match named {
        HostName::Sandbox(destination) => return destination,
        HostName::Api => return Destination::Api,
        HostName::Neutral if parts.headers.contains_key(API_KEY) => return Destination::Api,
        HostName::Neutral | HostName::Shared => {}
    }
    let headers = &parts.headers;
    match (headers.get(SANDBOX_ID), headers.get(SANDBOX_PORT)) {
        (Some(id), Some(port)) => return read_headers(id, port),
        (Some(_), None) => {
            return Destination::Misaddressed(Misaddressed::MissingHeader("E2b-Sandbox-Port"));
        }
        (None, Some(_)) => {
            return Destination::Misaddressed(Misaddressed::MissingHeader("E2b-Sandbox-Id"));
        }
        (None, None) => {}
    }
    match by_credentials(parts) {
        Some(destination) => destination,
        None if named == HostName::Shared => {
            Destination::Misaddressed(Misaddressed::MissingHeader("E2b-Sandbox-Id"))
        }
        None => Destination::Api,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum HostName {
    /// Names a sandbox, or tries to.
    Sandbox(Destination),
    /// A name of the API's own.
    Api,
    /// The name `sandbox.<domain>`, which all sandboxes share and the API does not.
    Shared,
    /// Says nothing: an address, `localhost`, the host's own name.
    Neutral,
}

fn read_host(host: &str, domain: &str) -> HostName {
    let Some((label, rest)) = host.split_once('.') else {
        return HostName::Neutral;
    };
    let ours = rest == domain;
    let Some((port, name)) = label.split_once('-') else {
        return match label {
            "api" if ours => HostName::Api,
            "sandbox" if ours => HostName::Shared,
            _ => HostName::Neutral,
        };
    };
    // Whatever follows a second dash is an old client id.
    let name = name.split('-').next().unwrap_or_default();
    // A host may be called `10-0-0-1.example.com`, so a name that is not ours to give is
    // taken for a sandbox's only if nothing is missing.
    let tries = ours && port.bytes().all(|byte| byte.is_ascii_digit());
    if name.parse::<SandboxId>().is_ok() || tries {
        HostName::Sandbox(target(name, port, NamedBy::Host))
    } else {
        HostName::Neutral
    }
}

fn read_headers(id: &HeaderValue, port: &HeaderValue) -> Destination {
    let (name, _client) = id
        .to_str()
        .map_or(("", ""), |id| id.split_once('-').unwrap_or((id, "")));
    target(name, port.to_str().unwrap_or_default(), NamedBy::Headers)
}

fn target(name: &str, port: &str, named_by: NamedBy) -> Destination {
    let Some(port) = read_port(port) else {
        return Destination::Misaddressed(Misaddressed::InvalidPort);
    };
    if let Ok(id) = name.parse() {
        return Destination::Sandbox(Target { id, port, named_by });
    }
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if (1..=64).contains(&name.len()) && name.bytes().all(letters) {
        let name = name.to_owned();
        return Destination::NoSuchSandbox { name };
    }
    Destination::Misaddressed(Misaddressed::InvalidSandboxId)
}

fn read_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

fn by_credentials(parts: &Parts) -> Option<Destination> {
    let path = parts.uri.path();
    let files = path == "/files" || path.starts_with("/files/");
    if (files || path == "/health" || is_rpc_path(path)) && parts.headers.contains_key(ACCESS_TOKEN)
    {
        return Some(Destination::TokenHolder);
    }
    let query = parts.uri.query().unwrap_or_default();
    let signed = query.split('&').any(|pair| pair.starts_with("signature="));
    (path == "/files" && signed).then_some(Destination::Signer)
}

/// Returns true if a path is one of the agent's remote procedures.
pub(crate) fn is_rpc_path(path: &str) -> bool {
    path.starts_with("/process.Process/") || path.starts_with("/filesystem.Filesystem/")
}

impl Target {
    /// The agent of a sandbox, found by something else than its name.
    pub(crate) fn agent(id: SandboxId) -> Self {
        Self {
            id,
            port: AGENT_PORT,
            named_by: NamedBy::Headers,
        }
    }
}

#[cfg(test)]
mod tests;
