//! Proxies of owners' own, between the contract and the domain.

use skep_control::{Caller, Control};
use skep_types::{
    Egress, EgressProxy, EgressProxyError, EgressProxyTlsWords, EgressProxyWords, Redacted,
};
use skep_wire::rest;

use crate::error::ApiError;

/// A proxy that is asked for, with its password if it has one.
#[derive(Debug)]
pub(crate) struct NewProxy {
    proxy: EgressProxy,
    password: Option<Redacted<String>>,
}

impl NewProxy {
    pub(super) fn read(body: rest::EgressProxy) -> Result<Self, EgressProxyError> {
        let tls = body.tls.map(|tls| EgressProxyTlsWords {
            enabled: tls.enabled,
            server_name: tls.server_name,
            ca_cert: tls.ca_cert,
        });
        let (proxy, password) = EgressProxy::new(EgressProxyWords {
            address: body.address,
            username: body.username,
            password: body.password.map(Redacted::new),
            tls,
        })?;
        Ok(Self { proxy, password })
    }
}

/// The policy with its proxy, whose password nobody sees from then on.
pub(crate) async fn sealed(
    control: &Control,
    caller: &Caller,
    egress: Egress,
    proxy: Option<NewProxy>,
) -> Result<Egress, ApiError> {
    let Some(NewProxy { proxy, password }) = proxy else {
        return Ok(egress);
    };
    let proxy = control.seal_egress_proxy(caller, proxy, password).await?;
    Ok(egress.with_proxy(Some(proxy)))
}

/// The proxy as it is shown: its address and user, and nothing else.
pub(crate) fn shown_proxy(proxy: &EgressProxy) -> rest::EgressProxy {
    rest::EgressProxy {
        address: Some(proxy.address().to_string()),
        username: proxy.username().map(str::to_owned),
        ..rest::EgressProxy::default()
    }
}

impl From<EgressProxyError> for ApiError {
    fn from(error: EgressProxyError) -> Self {
        match error {
            EgressProxyError::Address
            | EgressProxyError::Private
            | EgressProxyError::TooLong { .. }
            | EgressProxyError::PasswordAlone
            | EgressProxyError::TlsDisabled => {
                Self::bad_request("validation_error", error.to_string())
            }
            EgressProxyError::Tls => Self::bad_request("feature_unavailable", error.to_string()),
        }
    }
}
