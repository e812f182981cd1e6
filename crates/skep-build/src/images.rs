//! The port to images of registries.

use std::fmt;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_types::{PulledImage, RegistryCredentials};

/// Receiver of lines about an image that is being fetched.
pub type PullNews<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Port that fetches images from registries and puts their layers into the store.
pub trait Images: fmt::Debug + Send + Sync {
    /// Fetches what is not there yet of an image for this host. With `force` its registry is asked
    /// even if it was a moment ago. `news` is told what comes, for whoever waits.
    ///
    /// # Errors
    ///
    /// [`PullError`], in words for the caller: they name the reference and no credentials.
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        credentials: Option<&'a RegistryCredentials>,
        force: bool,
        news: PullNews<'a>,
    ) -> BoxFuture<'a, Result<PulledImage, PullError>>;
}

/// An image could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PullError {
    /// The reason, in words that the caller may see.
    pub message: String,
    /// The error behind it, for the log of the server.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A host that fetches no images.
#[derive(Debug, Clone, Copy)]
pub struct NoImages;

impl Images for NoImages {
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        _credentials: Option<&'a RegistryCredentials>,
        _force: bool,
        _news: PullNews<'a>,
    ) -> BoxFuture<'a, Result<PulledImage, PullError>> {
        let message = format!(
            "image '{reference}' cannot be used: this server fetches no images; begin with a template instead"
        );
        let source = None;
        std::future::ready(Err(PullError { message, source })).boxed()
    }
}
