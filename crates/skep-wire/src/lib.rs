//! Bodies exactly as on the wire. No type here does work, and none is a domain type.

pub mod agent;
