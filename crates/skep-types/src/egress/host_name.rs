//! Names of single hosts.

use std::fmt;
use std::str::FromStr;

use super::host_pattern::is_host_name;

/// The name of one host, in lower case and without the dot at its end. Never an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(Box<str>);

/// A text that is the name of no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a host name")]
pub struct HostNameError;

impl HostName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        if !is_host_name(name) {
            return Err(HostNameError);
        }
        Ok(Self(name.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_form_and_an_address_is_none() {
        let name: HostName = "WWW.Example.com.".parse().unwrap();
        assert_eq!(name.as_str(), "www.example.com");
        for text in [
            "", ".", "*", "*.a", "1.2.3.4", "a..b", "a b", "a\r\n", "[::1]", "a:80",
        ] {
            assert_eq!(text.parse::<HostName>(), Err(HostNameError), "{text}");
        }
    }
}
