//! The name that clients reach the server by, and what it speaks under that name.

use std::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

use skep_cli::CliError;
use skep_config::Config;
use skep_domain::{DnsSockets, Domain, LOCAL_DOMAIN, LocalDns, TrustFiles};
use skep_packages::PackageSettings;
use skep_proxy::Listener;
use skep_telemetry::Chain;
use skep_types::DomainName;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::code::reachable;

/// Protocols that the front door may be asked for, beside what the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Clear text, and TLS on the same port where this host vouches for the domain itself.
    Usual,
    /// TLS alone, and DNS for the names below the domain.
    TlsAlone,
    /// Clear text alone: nobody but the command that started the server comes.
    Private,
}

/// A domain, and the certificates for it.
#[derive(Debug)]
pub struct FrontDoor {
    /// As its operator wrote it, perhaps with a port.
    domain: String,
    tls: Option<Domain>,
    speaks_clear_text: bool,
    trust: Option<TrustFiles>,
}

impl FrontDoor {
    /// Opens the domain of the configuration, or the one that every host has. `host` says whom users of this
    /// host trust already.
    ///
    /// # Errors
    ///
    /// If a certificate cannot be read or made.
    pub fn open(
        config: &Config,
        protocol: Protocol,
        host: &PackageSettings,
    ) -> Result<Self, CliError> {
        let domain = config.domain.as_deref().unwrap_or(LOCAL_DOMAIN);
        if !DomainName::new(domain).is_well_formed() {
            return Err(CliError::input(
                format!("`{domain}` in `domain` is not a domain name"),
                "write it as in `sandboxes.example.com`, with `:port` behind it if need be",
            ));
        }
        let now = SystemTime::now();
        let tls = match &config.tls {
            Some(_) if config.domain.is_none() => {
                return Err(CliError::input(
                    "`tls` is configured without `domain`",
                    "set `domain` to the name that the certificate is for",
                ));
            }
            Some(files) => {
                let (chain, key) = (files.certificate.clone(), files.key.clone());
                Some(Domain::from_files(domain, chain, key, now))
            }
            None if vouches_itself(domain, protocol) => {
                Some(Domain::local(domain, &config.data_dir.join("tls"), now))
            }
            None => None,
        };
        let tls = tls.transpose().map_err(CliError::failure)?;
        if let Some(tls) = &tls {
            tracing::debug!(domain, "serving TLS");
            // It ends with the process.
            drop(skep_telemetry::spawn("certificates", tls.keep_fresh()));
        }
        let authority = tls.as_ref().and_then(Domain::authority);
        Ok(Self {
            trust: authority.map(|authority| publish(config, authority, host)),
            speaks_clear_text: config.tls.is_none() && protocol != Protocol::TlsAlone,
            domain: domain.to_owned(),
            tls,
        })
    }

    /// The domain as its operator wrote it.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The files by which users trust this host's own authority, if it vouches for the domain.
    pub fn trust(&self) -> Option<&TrustFiles> {
        self.trust.as_ref()
    }

    /// The domain as clients have to write it, with the port if it is not the usual one.
    pub fn public_domain(&self, port: u16) -> String {
        let usual = match (port, self.speaks_clear_text) {
            (80, true) => self.tls.is_none(),
            (443, false) => true,
            _ => false,
        };
        if usual || self.domain.contains(':') {
            self.domain.clone()
        } else {
            format!("{}:{port}", self.domain)
        }
    }

    /// The URL of the API and, by headers, of every sandbox. Clear text where that is spoken,
    /// since it needs neither names nor trust.
    pub fn url(&self, address: SocketAddr) -> String {
        if self.speaks_clear_text {
            format!("http://{}", reachable(address))
        } else {
            format!("https://api.{}", self.public_domain(address.port()))
        }
    }

    /// Returns true if its listeners take requests inside TLS.
    pub fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns true if its listeners take requests without TLS.
    pub fn speaks_clear_text(&self) -> bool {
        self.speaks_clear_text
    }

    /// Makes a listener of a socket.
    ///
    /// # Errors
    ///
    /// If the TLS library was built without what it needs.
    pub fn listener(&self, tcp: TcpListener) -> Result<Listener, CliError> {
        let Some(tls) = &self.tls else {
            return Ok(Listener::plain(tcp));
        };
        let config = tls.server_config().map_err(CliError::failure)?;
        Ok(if self.speaks_clear_text {
            Listener::plain_and_tls(tcp, config)
        } else {
            Listener::tls(tcp, config)
        })
    }

    /// Answers names below the domain on the address that the server listens on, if clients have
    /// no other way to it.
    ///
    /// # Errors
    ///
    /// If no socket can be bound.
    pub async fn serve_names(&self, address: SocketAddr) -> Result<Option<SocketAddr>, CliError> {
        if self.speaks_clear_text {
            return Ok(None);
        }
        let dns = LocalDns::new(&self.domain, vec![address.ip()]).map_err(CliError::failure)?;
        let sockets = DnsSockets::bind(address.ip())
            .await
            .map_err(CliError::failure)?;
        let dns_address = sockets.address().map_err(CliError::failure)?;
        // It ends with the process: a question that is cut off is asked again.
        let serving = dns.serve(sockets, CancellationToken::new());
        drop(skep_telemetry::spawn("local DNS", serving));
        Ok(Some(dns_address))
    }
}

/// Returns true if this host is the authority for a domain. A name below `localhost` never leaves
/// it, so nobody else can be.
fn vouches_itself(domain: &str, protocol: Protocol) -> bool {
    let name = DomainName::new(domain);
    match protocol {
        Protocol::Usual => name.as_str().ends_with(".localhost"),
        Protocol::TlsAlone => true,
        Protocol::Private => false,
    }
}

/// Puts the authority where users can read it; if that fails they have to be root.
fn publish(config: &Config, authority: &Path, host: &PackageSettings) -> TrustFiles {
    let directory = skep_install::trust_dir(&config.data_dir);
    let published = TrustFiles::publish(&directory, authority, host.ca_bundle().unwrap_or(""));
    published.unwrap_or_else(|error| {
        tracing::warn!(error = %Chain(&error), "cannot publish the CA certificate, only root can read it");
        TrustFiles {
            authority: authority.to_owned(),
            bundle: authority.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(domain: &str, speaks_clear_text: bool) -> FrontDoor {
        FrontDoor {
            domain: domain.to_owned(),
            tls: None,
            speaks_clear_text,
            trust: None,
        }
    }

    #[track_caller]
    fn check(door: &FrontDoor, address: &str, domain: &str, url: &str) {
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(door.public_domain(address.port()), domain);
        assert_eq!(door.url(address), url);
    }

    #[test]
    fn a_domain_has_the_port_of_the_server_unless_it_is_the_usual_one_or_named() {
        let own = door("skep.localhost", true);
        check(
            &own,
            "127.0.0.1:3000",
            "skep.localhost:3000",
            "http://127.0.0.1:3000",
        );
        check(
            &own,
            "[::]:3000",
            "skep.localhost:3000",
            "http://[::1]:3000",
        );
        check(&own, "0.0.0.0:80", "skep.localhost", "http://127.0.0.1:80");
        let behind = door("a.example.com:443", true);
        check(
            &behind,
            "127.0.0.1:3000",
            "a.example.com:443",
            "http://127.0.0.1:3000",
        );
        let secure = door("a.example.com", false);
        check(
            &secure,
            "10.0.0.1:443",
            "a.example.com",
            "https://api.a.example.com",
        );
        check(
            &secure,
            "10.0.0.1:8443",
            "a.example.com:8443",
            "https://api.a.example.com:8443",
        );
    }

    #[test]
    fn this_host_vouches_for_names_that_never_leave_it() {
        for domain in ["skep.localhost", "a.b.localhost:1234", "Skep.Localhost"] {
            assert!(vouches_itself(domain, Protocol::Usual), "{domain}");
        }
        // Behind a proxy, with a certificate that is not ours to make.
        for domain in ["sandboxes.example.com:443", "notlocalhost", "localhost"] {
            assert!(!vouches_itself(domain, Protocol::Usual), "{domain}");
            assert!(vouches_itself(domain, Protocol::TlsAlone), "{domain}");
        }
        assert!(!vouches_itself("skep.localhost", Protocol::Private));
    }
}
