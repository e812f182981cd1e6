//! Bodies exactly as on the wire. No type here does work, and none is a domain type.

pub mod agent;
pub mod headers;
pub mod interpreter;
pub mod rest;

/// Messages of the agent's RPC services, generated from `proto/` by `codegen/`.
#[cfg(feature = "agent-rpc")]
#[allow(
    missing_docs,
    unused_lifetimes,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::wildcard_enum_match_arm,
    reason = "generated code follows its generator's style"
)]
pub mod rpc {
    include!("generated/rpc.rs");
}
