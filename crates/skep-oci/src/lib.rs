//! Images of registries: pulled, verified, and unpacked into layers.
//!
//! A [`Puller`] asks a registry what a reference means, fetches what the store of layers lacks,
//! checks every byte against its digest and has each layer unpacked by a process that can do
//! nothing else ([`unpack_layer`]). What it gives out names layers of the store.

mod address;
mod challenge;
mod credentials;
mod digest;
mod error;
mod last_versions;
mod manifest;
mod pull;
mod reference;
mod registry;
mod room;
mod sigv4;
mod unpack;

pub use error::{PullError, PullReason};
pub use pull::{Puller, Registries};
pub use reference::{Reference, ReferenceError};
#[cfg(feature = "fuzzing")]
pub use unpack::fuzzing;
pub use unpack::{UNPACK_LAYER, UnpackLimits, Unpacker, unpack_layer};
