//! One request on its way to the API or a sandbox, and its answer on the way back.

pub(crate) mod answer;
mod api_key;
mod credentials;
mod exchange;
pub(crate) mod hangup;
pub(crate) mod headers;
mod ingress;
mod preflight;
pub(crate) mod request_body;
pub(crate) mod response_body;
mod upgrade;
pub(crate) mod wake;
