//! The agent's callers: who may ask, what the routes are, and files over plain HTTP.

pub(crate) mod authorize;
pub(crate) mod caller;
mod control;
pub(crate) mod encoding;
pub(crate) mod files;
pub(crate) mod rest_error;
pub(crate) mod routes;
mod rpc;
pub(crate) mod serve;
pub(crate) mod signature;
mod tunnel;
