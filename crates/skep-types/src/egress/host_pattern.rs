//! Hosts by their names.

use std::fmt;
use std::str::FromStr;

/// Length of the longest host name, by the rules of DNS.
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A host name, all names below one (`*.example.com`), or every name (`*`). Lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Every name.
    Any,
    /// This name alone.
    Exact(Box<str>),
    /// Names below this one, at any depth, without itself.
    Below(Box<str>),
}

/// A text that names no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a host name")]
pub struct HostPatternError;

impl HostPattern {
    /// Returns true if `name` is meant, in whatever case, with the dot at its end or without.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        match self {
            Self::Any => !name.is_empty(),
            Self::Exact(host) => name.eq_ignore_ascii_case(host),
            Self::Below(parent) => {
                let at = name.len().checked_sub(parent.len());
                let split = at.and_then(|at| name.split_at_checked(at));
                split.is_some_and(|(labels, rest)| {
                    rest.eq_ignore_ascii_case(parent) && labels.len() > 1 && labels.ends_with('.')
                })
            }
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let (name, is_wildcard) = match text.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (text, false),
        };
        if !is_host_name(name) {
            return Err(HostPatternError);
        }
        let name = name.to_ascii_lowercase().into();
        Ok(if is_wildcard {
            Self::Below(name)
        } else {
            Self::Exact(name)
        })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("*"),
            Self::Exact(name) => formatter.write_str(name),
            Self::Below(parent) => write!(formatter, "*.{parent}"),
        }
    }
}

/// Returns true for names of hosts; addresses, which end in a number, are none. Resolvers read
/// numbers in hexadecimal, too.
pub(super) fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.bytes().all(is_allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x").or(last.strip_prefix("0X")) {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    name.len() <= LONGEST && name.split('.').all(is_label) && !is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matched: &[&str], unmatched: &[&str]) {
        let pattern: HostPattern = pattern.parse().unwrap();
        for name in matched {
            assert!(pattern.matches(name), "{pattern} {name}");
        }
        for name in unmatched {
            assert!(!pattern.matches(name), "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_matched_whole_and_in_any_case() {
        check(
            "Example.com",
            &["example.com", "EXAMPLE.COM", "example.com."],
            &[
                "www.example.com",
                "example.com.evil.test",
                "xexample.com",
                "",
            ],
        );
        check(
            "*.example.com",
            &["a.example.com", "A.b.Example.Com", "a.example.com."],
            &["example.com", ".example.com", "aexample.com", "é.com", ""],
        );
        check("*", &["anything.test"], &["", "."]);
    }

    #[test]
    fn what_names_no_host_is_refused() {
        let long = format!("{}.com", "x".repeat(64));
        let longer = ["x"; 200].join(".");
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "-a.com",
            "a-.com",
            "a b",
            "a/b",
            "http://a",
            "a:80",
            "*.*",
            "**",
            "*a.com",
            "a.*",
            "*.",
            "1.2.3.4",
            "1.2",
            "0x7f000001",
            "0xA9.0XFE",
            "127.0x",
            "büro.de",
            "a\0b",
            &long,
            &longer,
        ] {
            assert_eq!(text.parse::<HostPattern>(), Err(HostPatternError), "{text}");
        }
    }
}
