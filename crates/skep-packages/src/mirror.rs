//! Settings for clients that are to use a mirror of ours, which speaks plain HTTP and asks for no login.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::apt::Mirror;

/// Address of a mirror, as sandboxes reach it.
#[derive(Debug, Clone, Copy)]
pub struct MirrorPlace(SocketAddr);

impl MirrorPlace {
    /// The mirror at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    pub(crate) fn host(&self) -> String {
        self.0.ip().to_string()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0)
    }

    pub(crate) fn pypi(&self) -> String {
        self.url("/pypi/simple/")
    }

    pub(crate) fn pip(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("index-url".to_owned(), self.pypi()),
            // pip refuses an index in plain of which nobody says that it may be.
            ("trusted-host".to_owned(), self.0.to_string()),
        ])
    }

    pub(crate) fn npm(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("registry".to_owned(), self.url("/npm/")),
            // Both ask for what the mirror does not have.
            ("audit".to_owned(), "false".to_owned()),
            ("update-notifier".to_owned(), "false".to_owned()),
        ])
    }

    pub(crate) fn apt(&self) -> Mirror {
        Mirror {
            main: self.url("/debian"),
            security: Some(self.url("/debian-security")),
        }
    }

    /// Variables that keep clients from asking a proxy for the mirror, if there is one.
    pub(crate) fn without_proxy(&self, proxy: &[(String, String)]) -> Vec<(String, String)> {
        if proxy.is_empty() {
            return Vec::new();
        }
        let is_exception = |name: &str| name.eq_ignore_ascii_case("no_proxy");
        let others = proxy.iter().filter(|(name, _)| is_exception(name));
        let mut hosts: Vec<String> = others.map(|(_, hosts)| hosts.clone()).collect();
        hosts.dedup();
        hosts.push(self.host());
        let hosts = hosts.join(",");
        ["no_proxy", "NO_PROXY"]
            .map(|name| (name.to_owned(), hosts.clone()))
            .to_vec()
    }
}
