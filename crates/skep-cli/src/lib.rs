//! The commands that talk to a server: what they ask, and how they show it.
//!
//! Data goes to standard output, everything else to standard error. An error is followed by
//! hints. `--json` prints for machines.

mod error;
mod key;
mod output;
mod sandbox;
mod target;
mod terminal;

pub use error::{CliError, ExitKind};
pub use key::KeyCommand;
pub use output::{OutputArgs, print_json, print_line, print_note, print_table};
pub use sandbox::{Level, LogArgs, SandboxCommand};
pub use target::ServerArgs;
