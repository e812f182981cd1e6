//! The domain below which sandboxes have names.

use std::fmt;

/// A domain name to compare host names with: in lower case, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainName(String);

impl DomainName {
    /// Reads a domain as operators write it, and cuts off a port and dots around it. Any text is
    /// taken: one that is no domain name is the name of no host.
    pub fn new(text: &str) -> Self {
        let name = text.split(':').next().unwrap_or_default();
        Self(name.trim_matches('.').to_ascii_lowercase())
    }

    /// Returns true if this can be the name of a host: labels of letters, digits and dashes.
    pub fn is_well_formed(&self) -> bool {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letters);
        self.0.len() <= 253 && self.0.split('.').all(label)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_read_without_port_case_and_dots() {
        for text in ["skep.test", "Skep.Test:8443", ".skep.test.", "SKEP.TEST.:1"] {
            assert_eq!(DomainName::new(text).as_str(), "skep.test", "{text}");
        }
        assert_eq!(DomainName::new("").to_string(), "");
    }

    #[test]
    fn what_no_host_can_be_called_is_told_apart() {
        for text in ["skep.localhost", "10-a.example:443", "localhost"] {
            assert!(DomainName::new(text).is_well_formed(), "{text}");
        }
        let long = "a".repeat(64);
        for text in ["", ":443", "a..b", "a b", "../etc", "a/b", "*.a", &long] {
            assert!(!DomainName::new(text).is_well_formed(), "{text}");
        }
    }
}
