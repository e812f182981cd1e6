//! Connections from outside: which are admitted, how long they live, and what they may hold.

pub(crate) mod admission;
pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod protocol;
pub(crate) mod reject;
pub(crate) mod serve;
pub(crate) mod socket;
