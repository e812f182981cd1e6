//! Values of the headers that rules put into requests.

use futures_util::future::BoxFuture;
use skep_types::{HeaderTemplate, Redacted, SandboxId};

/// Source of what stands at the places of a template: secrets of a sandbox's team, and tokens that
/// say who a sandbox is.
pub trait HeaderValues: Send + Sync + 'static {
    /// The value of a header, for one request of a sandbox. It is asked for at every request, so a
    /// changed secret is in the next one.
    ///
    /// # Errors
    ///
    /// [`FillError`]; the request is not sent then, and its sender is told why.
    fn fill<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        template: &'a HeaderTemplate,
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
