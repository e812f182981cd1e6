//! Configuration that an operator may choose.

use std::time::Duration;

use skep_types::DomainName;

/// Requests of which a token is demanded by sandboxes whose owners wanted none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemandTokens {
    /// All of them.
    Always,
    /// Those that another proxy passes on, which come from other hosts.
    WhenForwarded,
    /// None of them.
    AsOrdered,
}

/// Limits, timeouts and domain of the proxy.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    /// The domain below which sandboxes have names.
    pub domain: DomainName,
    /// Limit on open client connections. One more takes the place of an idle one that has never
    /// shown a key or a token; if there is none, it is told `503`.
    pub connections: usize,
    /// Limit on connections of one address, or of one IPv6 network. One more takes the place of an
    /// idle one of the same address, or is told `429`.
    pub connections_per_address: usize,
    /// The same for addresses of this host, from which a reverse proxy connects for all.
    pub connections_per_loopback_address: usize,
    /// Limit on concurrent requests without a key or token, over all connections. One more is told
    /// `503`, so that there is room for callers with a key.
    pub anonymous_connections: usize,
    /// Limit on concurrent requests to one sandbox. One more is told `429`.
    pub requests_per_sandbox: usize,
    /// Limit on those of them that have shown neither a key nor a token.
    pub anonymous_requests_per_sandbox: usize,
    /// Time limit for the head of a request from its first byte, and for a new connection until its
    /// first request, TLS included. Bodies may be as slow as clients send them.
    pub head_timeout: Duration,
    /// Idle timeout of a connection that has shown a valid key or token. Clients keep theirs for
    /// 300 s and send a request twice if we close first.
    pub idle_timeout: Duration,
    /// Idle timeout of a connection that has not.
    pub anonymous_idle_timeout: Duration,
    /// Time for which a connection that has not may leave an answer unread, and a sandbox what the
    /// connection sends. Callers with a key or token may take as long as they like.
    pub anonymous_stall_timeout: Duration,
    /// Passes `POST /contexts` of an interpreter on with the sandbox's traffic token when its
    /// caller shows no token, if true. Whoever knows a sandbox's id can then start kernels in it.
    pub contexts_without_token: bool,
    /// Requests of which the token of a sandbox is demanded though its owner wanted none. Others
    /// are passed on to the agent and the interpreter with the token that they lack, unless a
    /// browser sent them for a page.
    pub demand_tokens: DemandTokens,
    /// Time limit for requests under way after the server was told to stop.
    pub drain: Duration,
}

impl ProxyConfig {
    /// The defaults for `domain`, of which a port is cut off.
    pub fn new(domain: &str) -> Self {
        Self {
            domain: DomainName::new(domain),
            connections: 8192,
            connections_per_address: 1024,
            connections_per_loopback_address: 6144,
            anonymous_connections: 4096,
            requests_per_sandbox: 4096,
            anonymous_requests_per_sandbox: 1024,
            head_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(620),
            anonymous_idle_timeout: Duration::from_secs(30),
            anonymous_stall_timeout: Duration::from_secs(60),
            contexts_without_token: false,
            demand_tokens: DemandTokens::Always,
            drain: Duration::from_secs(5),
        }
    }
}
