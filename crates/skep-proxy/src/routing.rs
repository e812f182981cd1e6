//! The sandbox that a request is for, and the paths in it that are not for callers.

pub(crate) mod authority;
pub(crate) mod classify;
pub(crate) mod control_path;
pub(crate) mod route;
pub(crate) mod signed_url;
