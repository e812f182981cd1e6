//! Volumes for the isolation backend.

use std::sync::Arc;

use skep_isolation::{VolumeMount, VolumeMounts, VolumeSource};
use skep_types::VolumeId;
use skep_volume::{Backend, LocalVolumes};

/// The volumes of this host.
#[derive(Debug)]
pub(crate) struct HostVolumes(pub(crate) Arc<LocalVolumes>);

impl VolumeMounts for HostVolumes {
    fn mount(&self, volume: VolumeId) -> Result<VolumeMount, VolumeSource> {
        Ok(VolumeMount {
            mount: self.0.mount(volume)?,
            directory: <dyn Backend>::SHOWN.to_owned(),
        })
    }
}
