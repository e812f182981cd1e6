//! Settings by which this host reaches package registries: certificates, proxies, mirrors.
//!
//! A host behind a mirror or an intercepting proxy has told its package clients about it. This
//! crate reads what apt, pip, uv and npm were told and writes it again in their own formats, for a
//! step of a template build or for a sandbox. It knows nothing of either.

mod apt;
mod bundle;
mod logins;
mod mirror;
mod npm;
mod pip;
mod registries;
mod settings;
mod uv;

pub use apt::AptSettings;
pub use mirror::MirrorPlace;
pub use registries::{Registries, Registry};
pub use settings::{BUILD_DIR, PackageSettings, PackageSettingsError};
