//! The proxy from outside: real sockets on loopback, a fake sandbox behind.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod stage;
mod strangers;
mod unread;

mod crowds;
mod floods;
mod forwarding;
mod hangup;
mod http2;
mod ingress;
mod kill;
mod latency;
mod limits;
mod origins;
mod refusals;
mod routing;
mod streams;
mod tls;
mod upgrades;
mod upstreams;
mod waking;
