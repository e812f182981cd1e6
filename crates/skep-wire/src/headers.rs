//! Names of headers, in lower case. Those that begin with `x-skep-` are ours.

/// The caller's key for the REST API.
pub const API_KEY: &str = "x-api-key";

/// The token that opens a sandbox's agent and interpreter.
pub const ACCESS_TOKEN: &str = "x-access-token";

/// The token that opens the contexts of a sandbox's interpreter to callers without the access
/// token.
pub const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";

/// The sandbox that a request to the proxy is for.
pub const SANDBOX_ID: &str = "e2b-sandbox-id";

/// The port of that sandbox.
pub const SANDBOX_PORT: &str = "e2b-sandbox-port";

/// The trace that a caller is in, as W3C's Trace Context writes it.
pub const TRACE_PARENT: &str = "traceparent";

/// Names of variables of a new sandbox whose values are secret, separated by commas.
pub const SECRET_ENVS: &str = "x-skep-secret-envs";

/// The token by which an agent knows its server, on control routes.
pub const CONTROL_TOKEN: &str = "x-skep-control";

/// The name that the proxy gives a request to the interpreter, so that it can cancel it.
pub const REQUEST_NAME: &str = "x-skep-request";

/// The name of an execution in its answer, by which a caller whose connection broke can ask for the
/// rest at `GET /executions/{id}`.
pub const EXECUTION_ID: &str = "x-skep-execution";
