//! Rule that nothing in the repository names the host somebody worked on, or a mirror only they
//! have.

use std::net::IpAddr;

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "places";

// Written in parts, or this file would break its own rule.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/.cargo"),
    concat!("/ro", "ot/.rustup"),
    concat!("/ro", "ot/.cache"),
    concat!("/ho", "me/runner/"),
];

/// Public sites that anybody can open.
const PUBLIC_HOSTS: &[&str] = &[
    "apache.org",
    "connectrpc.com",
    "crates.io",
    "debian.org",
    "docker.io",
    "docs.rs",
    "doc.rust-lang.org",
    "e2b.app",
    "e2b.dev",
    "github.com",
    "json-schema.org",
    "keepachangelog.com",
    "kernel.org",
    "man7.org",
    "modelcontextprotocol.io",
    "opencollective.com",
    "npmjs.org",
    "paulmillr.com",
    "paypal.me",
    "polar.sh",
    "pypi.org",
    "rust-lang.org",
    "rustup.rs",
    "semver.org",
    "spdx.org",
    "tidelift.com",
    "w3.org",
];

/// Names and suffixes that lead nowhere, for examples and tests (RFC 2606, RFC 6761).
const RESERVED: &[&str] = &[
    "example",
    "example.com",
    "example.net",
    "example.org",
    "invalid",
    "localhost",
    "test",
    "local",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        for (number, line) in file.numbered_lines() {
            let place = || format!("{}:{number}", file.path);
            for path in MACHINE_PATHS.iter().filter(|path| has_absolute(line, path)) {
                violations.push(Violation::new(
                    RULE,
                    place(),
                    format!("`{path}` is a path of one machine"),
                ));
            }
            for host in hosts(line).filter(|host| !is_public(host)) {
                violations.push(Violation::new(
                    RULE,
                    place(),
                    format!("`{host}` is not a host that everybody can reach; if it is, list it"),
                ));
            }
        }
    }
    violations
}

/// Returns true if `path` starts somewhere in `line`, and is not the tail of a longer path.
fn has_absolute(line: &str, path: &str) -> bool {
    let continues = |letter: char| letter.is_alphanumeric() || "._-})$*".contains(letter);
    line.match_indices(path)
        .any(|(start, _)| !line[..start].ends_with(continues))
}

/// The hosts of the web addresses in `line`.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices("://").filter(|(start, _)| {
        let scheme = &line[..*start];
        scheme.ends_with("http") || scheme.ends_with("https")
    });
    starts.filter_map(|(start, separator)| {
        let rest = &line[start + separator.len()..];
        let end = rest.find(|letter: char| {
            !(letter.is_ascii_alphanumeric() || ".-_@:[]{}$<>*%".contains(letter))
        });
        let authority = &rest[..end.unwrap_or(rest.len())];
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        // What is put together at run time is nobody's host.
        let is_pattern = host.contains(['{', '$', '<', '*', '%']);
        let name = host
            .split_once(':')
            .map_or(host, |(name, _)| name)
            .trim_end_matches('.');
        (!is_pattern && !name.is_empty()).then_some(name)
    })
}

fn is_public(host: &str) -> bool {
    if host.starts_with('[') || host.parse::<IpAddr>().is_ok_and(is_for_tests) {
        return true;
    }
    // A bare word, as in examples, leads nowhere outside a network that defines it.
    if !host.contains('.') {
        return true;
    }
    let host = host.to_ascii_lowercase();
    let within = |domain: &&&str| {
        host == **domain
            || host
                .strip_suffix(**domain)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    PUBLIC_HOSTS
        .iter()
        .chain(RESERVED)
        .any(|domain| within(&domain))
}

/// Loopback, link-local (the metadata address of clouds, which the attack tests ask for), the
/// sandboxes' own range, and the ranges kept for documentation.
fn is_for_tests(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let ours = first == 198 && (second == 18 || second == 19);
            address.is_loopback()
                || address.is_unspecified()
                || address.is_link_local()
                || address.is_documentation()
                || ours
        }
        IpAddr::V6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(line: &str) -> usize {
        check(&Tree::of(&[("a.md", line)])).len()
    }

    #[test]
    fn paths_of_one_machine_are_refused() {
        assert_eq!(count(&format!("see {}notes", MACHINE_PATHS[0])), 1);
        assert_eq!(count(&format!("\"{}/bin\"", MACHINE_PATHS[1])), 1);
        assert_eq!(
            count(&format!(
                "upper{} and {{slot}}{}",
                MACHINE_PATHS[0], MACHINE_PATHS[0]
            )),
            0
        );
    }

    #[test]
    fn a_mirror_is_refused_wherever_it_stands() {
        let mirror = concat!("https", "://mirror.corp.internal");
        assert_eq!(count(&format!("\"resolved\": \"{mirror}/e2b.tgz\"")), 1);
        assert_eq!(count(&format!("deb {mirror}:8081 trixie main")), 1);
        assert_eq!(count(concat!("http", "://user:secret@10.1.2.3:3128/")), 1);
        assert_eq!(count(concat!("https", "://notgithub.com/x")), 1);
    }

    #[test]
    fn public_reserved_and_composed_hosts_are_fine() {
        for line in [
            "https://github.com/x",
            "https://www.apache.org/licenses/",
            "http://127.0.0.1:3000",
            "http://localhost:{port}/",
            "http://mirror/debian",
            "https://49983-abc.example.com",
            "https://{port}-{id}.{domain}",
            "https://$HOST/x",
            "http://169.254.169.254/latest",
            "a scheme such as http:// alone",
        ] {
            assert_eq!(count(line), 0, "{line}");
        }
    }
}
