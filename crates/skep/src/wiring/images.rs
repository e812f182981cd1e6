//! The builder's port to images of registries.

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use skep_build::{Images, PullError, PullNews};
use skep_oci::Puller;
use skep_types::{PulledImage, RegistryCredentials};

/// Registries, asked by a client of ours.
#[derive(Debug)]
pub(crate) struct RegistryImages(pub(crate) Puller);

impl Images for RegistryImages {
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        credentials: Option<&'a RegistryCredentials>,
        force: bool,
        news: PullNews<'a>,
    ) -> BoxFuture<'a, Result<PulledImage, PullError>> {
        let pulling = self.0.pull(reference, credentials, force, news);
        pulling
            .map_err(|error| PullError {
                message: error.to_string(),
                source: Some(Box::new(error)),
            })
            .boxed()
    }
}
