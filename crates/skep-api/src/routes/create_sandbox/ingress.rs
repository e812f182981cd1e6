//! Rules for requests to a sandbox's ports, with the contract's sentences for what is wrong.

use skep_types::{HostMask, HostMaskError, HttpsPorts, HttpsPortsError, Ingress, MOST_HTTPS_PORTS};
use skep_wire::agent::AGENT_PORT;
use skep_wire::rest::Network;

use crate::error::ApiError;

/// Reads the rules of a request for a sandbox. Without any, everybody may use its ports.
pub(super) fn read(network: Option<&Network>) -> Result<Ingress, ApiError> {
    let Some(network) = network else {
        return Ok(Ingress::default());
    };
    let ports = network.https_ports.as_deref().unwrap_or_default();
    let https_ports = HttpsPorts::new(ports, AGENT_PORT).map_err(wrong_ports)?;
    let mask = network.mask_request_host.as_deref();
    let host_mask = mask.filter(|mask| !mask.is_empty()).map(host_mask);
    Ok(Ingress {
        is_private: network.allow_public_traffic == Some(false),
        host_mask: host_mask.transpose()?,
        https_ports,
    })
}

fn wrong_ports(error: HttpsPortsError) -> ApiError {
    ApiError::validation(match error {
        HttpsPortsError::TooMany => {
            format!("HTTPS ports can have at most {MOST_HTTPS_PORTS} entries.")
        }
        HttpsPortsError::OutOfRange(port) => {
            format!("HTTPS port must be between 1 and 65535: {port}")
        }
        HttpsPortsError::Reserved(port) => {
            format!("HTTPS backend routing is not supported for reserved port {port}")
        }
        HttpsPortsError::Repeated(port) => {
            format!("HTTPS port {port} is specified more than once.")
        }
    })
}

fn host_mask(mask: &str) -> Result<HostMask, ApiError> {
    mask.parse().map_err(|error| {
        ApiError::validation(match error {
            HostMaskError::Invalid => format!("mask request host is not valid: {mask}"),
            HostMaskError::NotAscii => format!(
                "mask request host '{mask}' is not ASCII. Use the form of the name that begins \
                 with xn--."
            ),
        })
    })
}
