//! Builds of templates, as teams order them.
//!
//! One task owns a build ([`Engine`]). Every step runs in a sandbox of the layers so far, and what it
//! has changed becomes the next layer, under a key of everything that led to it. A build that was
//! broken off goes on at the first step whose result is not there.
//!
//! What a build needs of others are ports: sandboxes ([`Sandboxes`]), uploaded files ([`Archives`])
//! and images of registries ([`Images`]).

mod archives;
mod base;
mod build;
mod context;
mod copy;
mod downloads;
mod engine;
mod expand;
pub mod fake;
mod finalize;
mod images;
mod instructions;
mod log;
mod login_path;
mod pip;
mod provision;
mod room;
mod sandboxes;
mod steps;
mod uploads;

pub use archives::Archives;
pub use downloads::{DOWNLOADS, Downloads, Generation, variables};
pub use engine::{Engine, EngineOptions, HostSettings, Limits};
pub use images::{Images, NoImages, PullError, PullNews};
pub use sandboxes::{
    BuildSandbox, Command, Exit, OpenError, Output, RunError, SandboxOrder, Sandboxes, SealError,
    Stream, TransferError,
};
pub use uploads::Uploads;
