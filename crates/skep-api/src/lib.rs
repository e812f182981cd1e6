//! The REST edge.
