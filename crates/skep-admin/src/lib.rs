//! The operator's commands on a host: who may use it, which templates it has, whether it can hold
//! sandboxes, and how an installation is taken off it.
//!
//! They work on the files of an installation, not on a server, so they need the rights of its
//! owner and no key. What talks to a server is in `skep-cli`.

pub mod announce;
pub mod criu;
pub mod doctor;
mod error;
pub mod local_key;
mod progress;
pub mod root;
pub mod rotate_key;
pub mod surroundings;
mod tcp_memory;
mod team;
pub mod template;
mod uninstall;

pub use error::install_error;
pub use team::TeamCommand;
pub use template::TemplateCommand;
pub use uninstall::UninstallArgs;
