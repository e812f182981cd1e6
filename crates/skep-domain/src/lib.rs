//! A domain of this host: its certificate authority, certificates for every name below it, and
//! DNS answers that lead them here.
//!
//! [`Domain`] holds the certificates that the proxy shows, [`LocalCa`] is the authority behind
//! them where no public one vouches, and [`LocalDns`] resolves names that no public DNS knows.
//! [`EgressCa`] is another authority, for sandboxes alone: it vouches for what they are shown in
//! place of hosts whose requests get headers on the way.

mod certificates;
mod domain;
mod egress_ca;
mod local_ca;
mod local_dns;
mod trust_files;

pub use certificates::{CertificateError, CertificateSource, Certificates};
pub use domain::{Domain, LOCAL_DOMAIN};
pub use egress_ca::{EgressCa, HostCertificate};
pub use local_ca::{Issued, LocalCa, LocalCaError};
pub use local_dns::{DnsSockets, LocalDns, LocalDnsError};
pub use trust_files::{TrustFiles, TrustFilesError};
