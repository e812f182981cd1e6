//! Proxies of owners' own, through which everything leaves that a sandbox may send.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;

use super::{HostName, PLATFORM_DENIED};
use crate::{HeaderTemplate, Redacted};

/// Limits on the texts of a proxy, in bytes. Those of user and password are SOCKS5's.
const LONGEST_LOGIN: usize = 255;
const LONGEST_SERVER_NAME: usize = 253;
const LONGEST_CERTIFICATE: usize = 8192;

/// A SOCKS5 proxy in the words of its owner, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressProxyWords {
    /// Host and port.
    pub address: Option<String>,
    /// User that the proxy knows.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<Redacted<String>>,
    /// TLS to the proxy.
    pub tls: Option<EgressProxyTlsWords>,
}

/// TLS to a proxy, in the words of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressProxyTlsWords {
    /// True if the proxy is spoken to in TLS.
    pub enabled: Option<bool>,
    /// Name that its certificate is for.
    pub server_name: Option<String>,
    /// Authority that vouches for it, in PEM.
    pub ca_cert: Option<String>,
}

/// The reason for which words are no proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressProxyError {
    /// The address is missing, or not a host and a port.
    #[error(
        "Invalid egress proxy config: address must be host:port, with a name or an address of IPv4 \
         and a port from 1 to 65535"
    )]
    Address,
    /// No sandbox reaches the address.
    #[error("Invalid egress proxy config: address must not be private or reserved")]
    Private,
    /// A text is longer than it may be.
    #[error("Invalid egress proxy config: {field} can have at most {limit} bytes")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Limit on its bytes.
        limit: usize,
    },
    /// There is a password for nobody.
    #[error("Invalid egress proxy config: password requires username")]
    PasswordAlone,
    /// TLS is not wanted and described all the same.
    #[error("Invalid egress proxy config: serverName and caCert require tls.enabled")]
    TlsDisabled,
    /// TLS to the proxy is wanted.
    #[error("Invalid egress proxy config: TLS to the proxy (tls.enabled) is not supported")]
    Tls,
}

/// The host of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyHost {
    /// By its name, which is looked up whenever somebody connects.
    Name(HostName),
    /// By its address.
    Address(Ipv4Addr),
}

/// The address of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyAddress {
    host: ProxyHost,
    port: u16,
}

/// A SOCKS5 proxy. Its password is sealed: nothing that has only this can show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressProxy {
    address: ProxyAddress,
    username: Option<Box<str>>,
    sealed_password: Option<Box<str>>,
}

/// A value that is asked for on behalf of a sandbox, and that the sandbox never sees.
#[derive(Debug, Clone, Copy)]
pub enum ValueRequest<'a> {
    /// A header of a request.
    Header(&'a HeaderTemplate),
    /// The password of a proxy, which is empty if it has none.
    ProxyPassword(&'a EgressProxy),
}

impl EgressProxy {
    /// The proxy of these words, without its password, and the password, which is to be sealed.
    ///
    /// # Errors
    ///
    /// [`EgressProxyError`], which says nothing that stands in the words.
    pub fn new(
        words: EgressProxyWords,
    ) -> Result<(Self, Option<Redacted<String>>), EgressProxyError> {
        let address: ProxyAddress = words.address.unwrap_or_default().parse()?;
        if let ProxyHost::Address(address) = address.host
            && is_denied(address)
        {
            return Err(EgressProxyError::Private);
        }
        let username = words.username.filter(|name| !name.is_empty());
        let password = words.password.filter(|word| !word.reveal().is_empty());
        check_length("username", username.as_deref(), LONGEST_LOGIN)?;
        let revealed = password.as_ref().map(|word| word.reveal().as_str());
        check_length("password", revealed, LONGEST_LOGIN)?;
        if password.is_some() && username.is_none() {
            return Err(EgressProxyError::PasswordAlone);
        }
        check_tls(&words.tls.unwrap_or_default())?;
        let username = username.map(String::into_boxed_str);
        let proxy = Self {
            address,
            username,
            sealed_password: None,
        };
        Ok((proxy, password))
    }

    /// A proxy that was written down.
    pub fn written(
        address: ProxyAddress,
        username: Option<String>,
        sealed_password: Option<String>,
    ) -> Self {
        Self {
            address,
            username: username.map(String::into_boxed_str),
            sealed_password: sealed_password.map(String::into_boxed_str),
        }
    }

    /// The same proxy with a password, as it was sealed for it.
    #[must_use]
    pub fn with_sealed_password(self, sealed: Option<String>) -> Self {
        Self {
            sealed_password: sealed.map(String::into_boxed_str),
            ..self
        }
    }

    /// Address of the proxy.
    pub fn address(&self) -> &ProxyAddress {
        &self.address
    }

    /// User that the proxy knows; without one it asks nobody who they are.
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password, as it was sealed.
    pub fn sealed_password(&self) -> Option<&str> {
        self.sealed_password.as_deref()
    }

    /// Returns true if connections through the one are connections through the other: a password
    /// proves who somebody is, and no more.
    pub fn is_same_way(&self, other: &Self) -> bool {
        self.address == other.address && self.username == other.username
    }
}

impl ProxyAddress {
    /// The host.
    pub fn host(&self) -> &ProxyHost {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for ProxyAddress {
    type Err = EgressProxyError;

    fn from_str(text: &str) -> Result<Self, EgressProxyError> {
        let (host, port) = text.rsplit_once(':').ok_or(EgressProxyError::Address)?;
        let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
        let port = port
            .parse()
            .ok()
            .filter(|_: &u16| is_plain)
            .ok_or(EgressProxyError::Address)?;
        let host = match host.parse() {
            Ok(address) => ProxyHost::Address(address),
            Err(_) => ProxyHost::Name(host.parse().map_err(|_| EgressProxyError::Address)?),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for ProxyAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            ProxyHost::Name(name) => write!(formatter, "{name}:{}", self.port),
            ProxyHost::Address(address) => write!(formatter, "{address}:{}", self.port),
        }
    }
}

impl<'a> From<&'a HeaderTemplate> for ValueRequest<'a> {
    fn from(template: &'a HeaderTemplate) -> Self {
        Self::Header(template)
    }
}

fn is_denied(address: Ipv4Addr) -> bool {
    let mut ranges = PLATFORM_DENIED.iter().map(|range| {
        let range: Ipv4Net = range.parse().expect("the ranges are constants");
        range
    });
    ranges.any(|range| range.contains(&address))
}

fn check_length(
    field: &'static str,
    text: Option<&str>,
    limit: usize,
) -> Result<(), EgressProxyError> {
    if text.is_some_and(|text| text.len() > limit) {
        return Err(EgressProxyError::TooLong { field, limit });
    }
    Ok(())
}

fn check_tls(tls: &EgressProxyTlsWords) -> Result<(), EgressProxyError> {
    let server_name = tls.server_name.as_deref();
    check_length("serverName", server_name, LONGEST_SERVER_NAME)?;
    check_length("caCert", tls.ca_cert.as_deref(), LONGEST_CERTIFICATE)?;
    if tls.enabled == Some(true) {
        return Err(EgressProxyError::Tls);
    }
    if tls.server_name.is_some() || tls.ca_cert.is_some() {
        return Err(EgressProxyError::TlsDisabled);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(address: &str) -> EgressProxyWords {
        EgressProxyWords {
            address: Some(address.to_owned()),
            ..EgressProxyWords::default()
        }
    }

    #[test]
    fn an_address_is_a_public_host_and_a_port() {
        for text in ["Proxy.example.com:1080", "198.51.100.7:1", "p:65535"] {
            let (proxy, password) = EgressProxy::new(words(text)).unwrap();
            assert_eq!(proxy.address().to_string(), text.to_ascii_lowercase());
            assert_eq!(password, None);
        }
        for text in [
            "",
            ":",
            "p",
            "p:",
            "p:0",
            "p:080",
            "p:+1",
            "p:65536",
            ":1080",
            "[::1]:1080",
            "::1:1080",
            "socks5://p:1080",
            "u:w@p:1080",
            "p q:1080",
            "p:1080/",
        ] {
            let refused = EgressProxy::new(words(text)).unwrap_err();
            assert_eq!(refused, EgressProxyError::Address, "{text}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "192.168.1.1",
            "172.16.0.1",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            let refused = EgressProxy::new(words(&format!("{address}:1080"))).unwrap_err();
            assert_eq!(refused, EgressProxyError::Private, "{address}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_without_the_words() {
        let with = |change: &dyn Fn(&mut EgressProxyWords)| {
            let mut words = words("p.test:1080");
            change(&mut words);
            EgressProxy::new(words).map(|(proxy, _)| proxy.username().map(str::to_owned))
        };
        let secret = || Some(Redacted::new("hunter2".to_owned()));
        let long = || "x".repeat(256);
        let refused = |change: &dyn Fn(&mut EgressProxyWords)| with(change).unwrap_err();
        assert_eq!(
            refused(&|words| words.password = secret()),
            EgressProxyError::PasswordAlone
        );
        for said in [
            refused(&|words| words.username = Some(long())),
            refused(&|words| {
                words.username = Some("u".into());
                words.password = Some(Redacted::new(long()));
            }),
        ] {
            assert!(said.to_string().ends_with("at most 255 bytes"), "{said}");
        }
        // What is empty is absent.
        let login = with(&|words| {
            words.username = Some(String::new());
            words.password = Some(Redacted::new(String::new()));
        });
        assert_eq!(login, Ok(None));
        let tls = |tls: EgressProxyTlsWords| with(&|words| words.tls = Some(tls.clone()));
        let named = |enabled| EgressProxyTlsWords {
            enabled,
            server_name: Some("p.test".into()),
            ca_cert: None,
        };
        assert_eq!(tls(EgressProxyTlsWords::default()), Ok(None));
        assert_eq!(tls(named(Some(true))), Err(EgressProxyError::Tls));
        for enabled in [Some(false), None] {
            assert_eq!(tls(named(enabled)), Err(EgressProxyError::TlsDisabled));
        }
        let shown = format!(
            "{:?}",
            EgressProxyWords {
                password: secret(),
                ..words("p:1")
            }
        );
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn another_password_is_no_other_way() {
        let written = |address: &str, user: &str, sealed: &str| {
            let address = address.parse().unwrap();
            EgressProxy::written(address, Some(user.into()), Some(sealed.into()))
        };
        let one = written("p:1", "u", "00");
        assert!(one.is_same_way(&written("p:1", "u", "01")));
        assert!(!one.is_same_way(&written("p:1", "v", "00")));
        assert!(!one.is_same_way(&written("p:2", "u", "00")));
    }
}
