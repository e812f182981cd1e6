//! The builder's port to images of registries.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_build::{Images, PullError, PullNews, PulledImage};
use skep_oci::Puller;
use skep_types::RegistryCredentials;

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
            .map(|pulled| match pulled {
                Ok(image) => Ok(PulledImage {
                    digest: image.digest,
                    layers: image.layers,
                    environment: image.environment,
                }),
                Err(error) => Err(PullError {
                    message: error.to_string(),
                    source: Some(Box::new(error)),
                }),
            })
            .boxed()
    }
}
