//! The operator's commands on a host: who may use it, which templates it has, whether it can hold
//! sandboxes, and how an installation is taken off it; and commands that run code with or without a
//! server on the host.
//!
//! They work on the files of an installation, not on a server, so they need the rights of its
//! owner and no key. What talks to a server is in `skep-cli`.
//!
//! Beside the commands are two parts of a server that the operator's files decide: under which name it is
//! reached ([`front_door`]), and which packages its sandboxes may have of a mirror ([`mirror`]).

pub mod announce;
mod background_build;
pub mod bench;
pub mod code;
pub mod criu;
pub mod doctor;
mod error;
pub mod front_door;
pub mod local_key;
pub mod man;
pub mod mcp;
pub mod mirror;
mod private_server;
mod progress;
pub mod root;
pub mod rotate_key;
pub mod surroundings;
mod tcp_memory;
mod team;
pub mod template;
mod uninstall;

pub use background_build::{BackgroundBuild, RunningBuild};
pub use code::Invocation;
pub use error::{install_error, start_error};
pub use team::TeamCommand;
pub use template::TemplateCommand;
pub use uninstall::UninstallArgs;
