//! The interpreter beside the agent, or its absence in sandboxes whose template has no kernels.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use skep_agent::{AgentHandle, Listen, SideService};
use skep_interpreter::Authorizer;
use skep_kernels::KernelSpecs;
use skep_wire::interpreter::INTERPRETER_PORT;

/// Makes the service on the interpreter's port.
///
/// The port is the agent's in every template, before any other program runs.
pub(crate) fn side_service() -> SideService {
    SideService {
        listen: Listen::At((Ipv4Addr::UNSPECIFIED, INTERPRETER_PORT).into()),
        routes: if skep_kernels::has_kernels() {
            Box::new(routes)
        } else {
            Box::new(|_agent| skep_interpreter::absent())
        },
    }
}

fn routes(agent: AgentHandle) -> Router {
    let agent = Arc::new(agent);
    let kernels = KernelSpecs::of_sandbox(Arc::clone(&agent) as _);
    let contexts = skep_interpreter::contexts(Arc::new(kernels), Arc::clone(&agent) as _);
    skep_interpreter::routes(contexts, Arc::new(Tokens(agent)))
}

/// The tokens of the sandbox, which the agent knows.
struct Tokens(Arc<AgentHandle>);

impl Authorizer for Tokens {
    fn admits(&self, token: Option<&[u8]>) -> bool {
        self.0.admits(token)
    }

    fn admits_traffic(&self, token: Option<&[u8]>) -> bool {
        self.0.admits_traffic(token)
    }
}
