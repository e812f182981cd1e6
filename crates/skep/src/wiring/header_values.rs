//! Values that go into headers of requests, from the vault and the issuer of identity tokens.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_control::WeakControl;
use skep_egress::{FillError, HeaderValues};
use skep_types::{Redacted, SandboxId, ValueRequest};

/// Control, as egress proxies ask it at every request.
///
/// Control keeps the host alive, and the host these: held strongly, neither would ever end, and a server
/// that is to leave nothing could not have its data for itself.
pub(crate) struct ControlHeaderValues(pub(crate) WeakControl);

impl HeaderValues for ControlHeaderValues {
    fn fill<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        wanted: ValueRequest<'a>,
    ) -> BoxFuture<'a, Result<Redacted<String>, FillError>> {
        async move {
            let control = self.0.upgrade().ok_or(FillError::Unavailable)?;
            let filled = control
                .fill_header(sandbox, wanted)
                .await
                .map_err(|error| {
                    // The sandbox's owner hears it from the request that fails; a sandbox can cause it in
                    // a loop.
                    tracing::debug!(%sandbox, %error, "a value is not filled in");
                    reason(&error)
                })?;
            Ok(Redacted::new(String::clone(&filled)))
        }
        .boxed()
    }
}

fn reason(error: &skep_control::FillError) -> FillError {
    use skep_control::FillError as Reason;
    match error {
        Reason::NoSecret(_) => FillError::UnknownSecret,
        Reason::NoToken(_) => FillError::UnknownToken,
        Reason::NoSandbox | Reason::TooLong | Reason::Unavailable => FillError::Unavailable,
    }
}
