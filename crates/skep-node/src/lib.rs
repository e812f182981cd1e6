//! The sandboxes of this machine: a driver task each.
