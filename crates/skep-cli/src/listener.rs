//! Owners of the sockets that listen on this host.
//!
//! The key of this host opens everything on it, and any user may listen where the server would
//! while it does not run. So the key is sent only to a socket of the user whom it belongs to.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use http::Uri;
use skep_client::is_localhost;

use crate::{CliError, FileError};

/// Fails unless whoever listens at `server` is the user whose `key` it is.
pub(crate) fn check_owner(server: &str, key: &Path) -> Result<(), CliError> {
    let owner = fs::metadata(key)
        .map_err(FileError::on("read the key of this host in", key))
        .map_err(|error| error.hint("set E2B_API_KEY, or use `--api-key`"))?
        .uid();
    let Some((addresses, port)) = addresses(server) else {
        return Err(foreign(server));
    };
    let mut lists = Vec::new();
    for path in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        match fs::read_to_string(path) {
            Ok(list) => lists.push(list),
            // A kernel without the protocol has no such list.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::on("read", Path::new(path))(error)),
        }
    }
    let listeners: Vec<_> = lists
        .iter()
        .flat_map(|list| list.lines())
        .filter_map(Listener::parse)
        .filter(|listener| listener.port == port && listener.takes_any_of(&addresses))
        .collect();
    match listeners.iter().find(|listener| listener.user != owner) {
        Some(other) => Err(CliError::failure(format!(
            "user {} listens at `{server}`, and not the user {owner}, whom the key of this host belongs to",
            other.user
        ))
        .hint("`skep up` starts a server; for another one, give its key with `--api-key` or E2B_API_KEY")),
        None if !listeners.is_empty() => Ok(()),
        None if addresses.iter().all(IpAddr::is_loopback) => {
            Err(CliError::failure(format!("nobody listens at `{server}`")).hint(
                "is the server running? `skep up` starts one; `--server` names another",
            ))
        }
        None => Err(foreign(server)),
    }
}

fn foreign(server: &str) -> CliError {
    CliError::input(
        format!("`{server}` is not on this host, and is not sent the key of this host"),
        "give the server's key with `--api-key` or E2B_API_KEY",
    )
}

/// The addresses and the port that a URL leads to, if that is clear without asking anybody.
fn addresses(server: &str) -> Option<(Vec<IpAddr>, u16)> {
    let url: Uri = server.parse().ok()?;
    let standard = match url.scheme_str()? {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let host = url.host()?;
    let addresses = if is_localhost(host) {
        vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
    } else {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        vec![bare.parse::<IpAddr>().ok()?.to_canonical()]
    };
    Some((addresses, url.port_u16().unwrap_or(standard)))
}

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listener {
    address: IpAddr,
    port: u16,
    user: u32,
}

impl Listener {
    /// Parses a line of the kernel's list of TCP sockets; `None` if it does not listen.
    fn parse(line: &str) -> Option<Self> {
        const LISTENING: &str = "0A";
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, port) = fields.get(1)?.split_once(':')?;
        if *fields.get(3)? != LISTENING {
            return None;
        }
        Some(Self {
            address: address_of(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
            user: fields.get(7)?.parse().ok()?,
        })
    }

    /// Returns true if a connection to one of these addresses of this host may come to it. One that
    /// takes all addresses says nothing about whose an address is, unless that is loopback.
    fn takes_any_of(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().any(|address| {
            self.address == *address || (self.address.is_unspecified() && address.is_loopback())
        })
    }
}

/// An address as the kernel writes it: words of four bytes, each in this host's order.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = text.get(8 * index..8 * index + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?];
    let bytes: [u8; 16] = words.concat().try_into().ok()?;
    Some(IpAddr::from(bytes).to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A key that belongs to this user.
    fn key() -> tempfile::NamedTempFile {
        tempfile::NamedTempFile::new().unwrap()
    }

    fn check(server: &str, key: &Path) -> Result<(), String> {
        check_owner(server, key).map_err(|error| {
            assert!(!error.hints.is_empty(), "{error:?}");
            error.source.to_string()
        })
    }

    #[test]
    fn a_server_of_the_same_user_gets_the_key() {
        let key = key();
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            check(&format!("http://localhost:{port}/"), key.path()).unwrap();
            check(&format!("http://api.skep.localhost:{port}"), key.path()).unwrap();
        }
    }

    #[test]
    fn a_server_of_another_user_does_not() {
        let key = key();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        check(&server, key.path()).unwrap();
        std::os::unix::fs::chown(key.path(), Some(4711), None).unwrap();
        let error = check(&server, key.path()).unwrap_err();
        assert!(error.contains("user 0 listens"), "{error}");
    }

    #[test]
    fn a_port_that_nobody_listens_at_gets_no_key() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = check(&server, key().path()).unwrap_err();
        assert!(error.starts_with("nobody listens"), "{error}");
    }

    #[test]
    fn other_hosts_get_no_key() {
        let key = key();
        // It listens at all addresses, and is still not at those.
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in [
            "192.0.2.1",
            "skep.example",
            "localhost.example",
            "[2001:db8::1]",
            "127.0.0.1@skep.example",
        ] {
            let error = check(&format!("http://{host}:{port}"), key.path()).unwrap_err();
            assert!(error.contains("is not on this host"), "{error}");
        }
    }

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1";
        let expected = Listener {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 3000,
            user: 1000,
        };
        if cfg!(target_endian = "little") {
            assert_eq!(Listener::parse(line), Some(expected));
        }
        assert_eq!(Listener::parse(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(
            Listener::parse("  sl  local_address rem_address   st"),
            None
        );
    }
}
