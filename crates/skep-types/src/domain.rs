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
}
