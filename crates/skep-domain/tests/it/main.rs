//! Certificates and DNS from outside, over real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod certificates;
mod libraries;
mod local_dns;
