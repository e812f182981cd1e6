//! A client of a Skep server: its REST API and, through the proxy, the agents and the
//! interpreters of sandboxes.
//!
//! It speaks the same wire as the official SDKs and knows nothing of the server's crates.

mod agent;
mod connect;
mod exec;
mod interpreter;
mod port;
mod rest;

pub use agent::{Agent, TerminalSize};
pub use exec::{ExecEvent, ExecOptions, ExecStream};
pub use interpreter::{ContextRef, Execution, Interpreter, InterpreterError, RunOptions};
pub use port::Port;
pub use rest::{Client, ClientError};
