//! Settings of an operator or a user for the sandboxes of this server.

use std::time::Duration;

/// Template of sandboxes unless another is named. Servers have smaller ones that stand in for it.
pub const USUAL_TEMPLATE: &str = "code-interpreter-v1";

/// Policy and limits. What a model asks for stays within them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Template of new sandboxes.
    pub template: String,
    /// Time that a sandbox lives after its last use, and the longest that a tool may work.
    pub lifetime: Duration,
    /// False takes the internet from every new sandbox.
    pub internet: bool,
    /// Addresses, ranges and hosts that a new sandbox may reach, whatever is denied.
    pub allow_out: Vec<String>,
    /// Addresses and ranges that it may not.
    pub deny_out: Vec<String>,
    /// Tools that are offered; all if empty.
    pub tools: Vec<String>,
    /// Sandbox that is used when a call names none.
    pub usual: Usual,
    /// True if ports of sandboxes are reached by TLS, whatever this server itself is reached by.
    pub secure_ports: Option<bool>,
}

/// Sandbox of calls that name none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usual {
    /// One that is made at the first need and ends with the session.
    OfSession,
    /// One that was there before, and stays.
    Given(String),
    /// The one with this name: sessions with the same name share it, one after another or at once.
    Named(String),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            template: USUAL_TEMPLATE.to_owned(),
            lifetime: Duration::from_secs(30 * 60),
            internet: true,
            allow_out: Vec::new(),
            deny_out: Vec::new(),
            tools: Vec::new(),
            usual: Usual::OfSession,
            secure_ports: None,
        }
    }
}

impl Settings {
    /// Returns true if a tool is offered.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|name| name == tool)
    }
}
