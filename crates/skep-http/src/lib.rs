//! Clients of HTTP, as every part of Skep makes them: names are resolved here and not by the C
//! library, and the cryptography is chosen.

mod destinations;
mod names;
mod public;

pub use destinations::{Destination, DestinationError, Destinations};
pub use names::{HostNames, NameError, is_localhost};
pub use public::{PrivateName, PublicNames, is_private_literal};

/// An HTTP client to be configured further. It resolves names itself, because the C library of a
/// static executable must not.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that makes HTTP clients"
)]
pub fn http_client() -> reqwest::ClientBuilder {
    // One process-wide choice; an earlier one is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().dns_resolver(HostNames)
}
