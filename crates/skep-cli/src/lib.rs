//! The client commands: rendering and hints.
