//! The operator's keys, which are never in the database, and values that are sealed by them.
//!
//! Everything here blocks: files and commands are read. Keys and opened values are wiped from memory
//! when they are dropped.

mod key_source;
mod keyring;
mod master_key;

pub use key_source::{KeySource, SourceError};
pub use keyring::{Keyring, OpenError};
pub use master_key::{KEY_BYTES, KeyError, MasterKey};
pub use zeroize::Zeroizing;
