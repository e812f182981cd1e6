//! The REST edge through its router, with fake hosts: text in, text out.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod access;
mod beside;
mod builds;
mod console;
mod create;
mod deadlines;
mod egress_proxy;
mod events;
mod identity;
mod isolation;
mod keys;
mod lists;
mod logged;
mod logs_and_metrics;
mod network;
mod openapi;
mod pauses;
mod scale;
mod secrets;
mod server;
mod templates;
mod transport;
mod volumes;
mod webhooks;
