//! A server of the Model Context Protocol: agents run code, commands and files in sandboxes.
//!
//! [`serve_stdio`] is `skep mcp`: one client on standard input and output. [`Endpoint`] is `/mcp`
//! of a server: many clients over streamable HTTP, each with the API key that it shows. Both are
//! clients of the REST API and may do what the key may do; nothing here knows the server.
//!
//! What sandboxes say is shown to people and models, so it passes through `clean` on its way out.

mod answer;
mod captured;
mod clean;
mod failure;
mod http;
mod progress;
mod resources;
mod schema;
mod service;
mod session;
mod settings;
mod stdio;
mod tools;

pub use http::{Caller, Endpoint, EndpointLimits};
pub use settings::{Settings, USUAL_TEMPLATE, Usual};
pub use stdio::{StdioError, serve_stdio};
pub use tools::TOOL_NAMES;
