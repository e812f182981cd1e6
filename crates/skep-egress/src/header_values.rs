//! Values of the headers that rules put into requests, and passwords of owners' proxies.

use futures_util::future::BoxFuture;
use skep_types::{Redacted, SandboxId, ValueRequest};

/// Source of what stands at the places of a template: secrets of a sandbox's team, and tokens that
/// say who a sandbox is; and of the password of its owner's proxy.
pub trait HeaderValues: Send + Sync + 'static {
    /// The value of a header, for one request of a sandbox, or a password for one connection. It is
    /// asked for every time, so a changed secret is in the next request.
    ///
    /// # Errors
    ///
    /// [`FillError`]; the request is not sent then, and its sender is told why.
    fn fill<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        wanted: ValueRequest<'a>,
    ) -> BoxFuture<'a, Result<Redacted<String>, FillError>>;
}

/// The reason for which there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The team has no secret of a name that it has.
    #[error("a secret does not exist")]
    UnknownSecret,
    /// The sandbox has no identity token of a name that it has.
    #[error("an identity token does not exist")]
    UnknownToken,
    /// The vault cannot be opened, or tokens not be signed, at the moment.
    #[error("values are not to be had now")]
    Unavailable,
}
