//! The mirror of package registries.

use std::num::NonZeroU32;

use serde::Deserialize;

/// The mirror of package registries at the gateway of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mirror {
    /// Serves it if true.
    pub enabled: bool,
    /// Port at the gateway.
    pub port: u16,
    /// Space for packages.
    pub cache_mib: NonZeroU32,
    /// Minutes for which an index is not asked for again.
    pub index_minutes: u32,
    /// Share of sandboxes whose network rules do not let them reach a registry themselves.
    pub offline: Offline,
    /// URL of the index of Python projects; none means that of the host.
    pub pypi: Option<String>,
    /// URL of the registry of npm; none means that of the host.
    pub npm: Option<String>,
    /// URL of Debian's archive; none means that of the host.
    pub debian: Option<String>,
    /// URL of Debian's archive of security updates; none means that of the host.
    pub debian_security: Option<String>,
}

/// Share in the mirror of sandboxes whose network rules do not let them reach a registry themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Offline {
    /// No share: the mirror refuses them.
    #[default]
    Nothing,
    /// Packages that the mirror has already, so that no name that they ask for gets out.
    Cached,
    /// The same as others.
    Everything,
}

impl Default for Mirror {
    fn default() -> Self {
        Self {
            enabled: false,
            port: 8081,
            cache_mib: NonZeroU32::new(20 * 1024).expect("not zero"),
            index_minutes: 10,
            offline: Offline::default(),
            pypi: None,
            npm: None,
            debian: None,
            debian_security: None,
        }
    }
}
