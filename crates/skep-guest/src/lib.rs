//! The executable of a sandbox: the launcher that makes it, and the agent with its interpreter.
//!
//! It is a program of its own, so that what runs in every sandbox has nothing of the server in it,
//! and a library, so that `skep` can play both parts where the other is not embedded
//! (`docs/adr/0019-a-smaller-agent.md`). Which part a process plays is its first argument.

mod agent;
mod arguments;
mod interpreter;

use std::ffi::OsString;
use std::process::ExitCode;

/// First argument of a launcher.
pub const LAUNCH: &str = "launch";
/// First argument of an agent.
pub const AGENT: &str = "agent";

/// Plays the part that `arguments` name, the zeroth included, or returns `None` if they name none.
///
/// The launcher enters namespaces, which a process with threads cannot: nothing may start one
/// before this is called.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    let part = arguments.next()?;
    if part == LAUNCH {
        return Some(skep_launch::run());
    }
    (part == AGENT).then(|| agent::run(arguments))
}
