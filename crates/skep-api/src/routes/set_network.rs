//! `PUT /sandboxes/{id}/network`

use axum::extract::State;
use axum::http::StatusCode;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::egress::{EgressBody, read_rules, sealed};
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Gives a sandbox other rules for what leaves it, in place of all that it had. Rules that are none
/// are refused before anybody looks whether there is such a sandbox, but for those about requests.
pub(crate) async fn set_network(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    Body(body): Body<rest::NetworkUpdate>,
) -> Result<StatusCode, ApiError> {
    let (caller, control) = (&authorized.caller, edge.control());
    let (mut egress, proxy, rules) = EgressBody::of_update(body).read_update()?;
    let id = path.id()?;
    if let Some(rules) = rules {
        control.find(caller, &id).await?;
        egress = egress.with_request_rules(read_rules(rules)?);
    }
    let egress = sealed(control, caller, egress, proxy).await?;
    control.set_egress(caller, &id, egress).await?;
    Ok(StatusCode::NO_CONTENT)
}
