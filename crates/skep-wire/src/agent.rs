//! Ports, paths and version of the agent's services.

/// The port of the agent's process and file services.
pub const AGENT_PORT: u16 = 49983;

/// Version of the agent's protocol that our sandboxes speak. Clients unlock features by it.
pub const ENVD_VERSION: &str = "0.6.13";

/// Paths of the agent that only the server may use. The proxy refuses them.
///
/// A path is a control route if it is one of these or lies below one of these.
pub const CONTROL_PATHS: &[&str] = &[
    "/init",
    "/freeze",
    "/unfreeze",
    "/collapse",
    "/fsfreeze",
    "/fsthaw",
    "/upgrade",
    "/skep",
];
