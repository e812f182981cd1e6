//! `PUT /sandboxes/{id}/network`

use axum::extract::State;
use axum::http::StatusCode;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::egress::EgressBody;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Gives a sandbox other rules for what leaves it, in place of all that it had. Rules that are none
/// are refused before anybody looks whether there is such a sandbox.
pub(crate) async fn set_network(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    Body(body): Body<rest::NetworkUpdate>,
) -> Result<StatusCode, ApiError> {
    let egress = EgressBody::of_update(body).read()?;
    edge.control()
        .set_egress(&authorized.caller, &path.id()?, egress)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
