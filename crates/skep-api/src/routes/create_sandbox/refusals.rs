//! Refusal of options that a sandbox cannot have yet, in the contract's own words where it has
//! some. None is accepted and ignored.

use axum::http::StatusCode;
use skep_wire::rest::{Network, NewSandbox};

use crate::error::ApiError;

pub(super) fn check(body: &NewSandbox, secure: bool) -> Result<(), ApiError> {
    lifecycle(body)?;
    if let Some(network) = &body.network {
        self::network(network, secure)?;
    }
    if body.mcp.as_ref().is_some_and(|mcp| !mcp.is_null()) {
        return Err(unavailable(
            "MCP servers (mcp) are not available for your team.",
        ));
    }
    let tokens = body.iam.as_ref().and_then(|iam| iam.tokens.as_ref());
    if tokens.is_some_and(|tokens| !tokens.is_empty()) {
        return Err(unavailable(
            "Sandbox IAM workload tokens are not available for your team.",
        ));
    }
    if body
        .volume_mounts
        .as_ref()
        .is_some_and(|mounts| !mounts.is_empty())
    {
        return Err(unavailable("Volume mounts are not enabled."));
    }
    Ok(())
}

fn lifecycle(body: &NewSandbox) -> Result<(), ApiError> {
    let auto_pause = body.auto_pause.unwrap_or(false);
    let auto_resume = body.auto_resume.is_some_and(|resume| resume.enabled);
    if body.auto_pause_memory == Some(false) && !auto_pause {
        return Err(ApiError::validation(
            "autoPauseMemory: false needs autoPause",
        ));
    }
    if body.auto_pause_memory == Some(false) && auto_resume {
        return Err(ApiError::validation(
            "autoPauseMemory: false does not go with autoResume",
        ));
    }
    if auto_pause {
        return Err(unavailable(
            "Auto-pause (autoPause) is not available for your team.",
        ));
    }
    if auto_resume {
        return Err(unavailable(
            "Auto-resume (autoResume) is not available for your team.",
        ));
    }
    Ok(())
}

fn network(network: &Network, secure: bool) -> Result<(), ApiError> {
    if network.allow_public_traffic == Some(false) {
        return Err(match secure {
            false => ApiError::bad_request(
                "secure_required",
                "You cannot create a sandbox without public access unless you enable secure \
                 envd access via 'secure' flag.",
            ),
            true => unavailable(
                "Private ingress (network.allowPublicTraffic) is not available for your team.",
            ),
        });
    }
    if network
        .egress_proxy
        .as_ref()
        .is_some_and(|proxy| !proxy.is_null())
    {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "feature_unavailable",
            "Egress proxy (network.egressProxy) is not enabled for this team.",
        ));
    }
    if network
        .rules
        .as_ref()
        .is_some_and(|rules| !rules.is_empty())
    {
        return Err(unavailable(
            "Network transform rules are not available for your team.",
        ));
    }
    let given = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if given(&network.allow_out) || given(&network.deny_out) || network.dns_servers.is_some() {
        return Err(unavailable(
            "Egress rules (network.allowOut, network.denyOut, network.dnsServers) are not \
             available for your team; allow_internet_access is.",
        ));
    }
    if network
        .mask_request_host
        .as_ref()
        .is_some_and(|host| !host.is_empty())
    {
        return Err(unavailable(
            "Host masking (network.maskRequestHost) is not available for your team.",
        ));
    }
    if network
        .https_ports
        .as_ref()
        .is_some_and(|ports| !ports.is_empty())
    {
        return Err(unavailable(
            "HTTPS ports (network.httpsPorts) are not available for your team.",
        ));
    }
    Ok(())
}

fn unavailable(message: &str) -> ApiError {
    ApiError::bad_request("feature_unavailable", message)
}
