//! The proxy edge: one port, by host name and by headers.
