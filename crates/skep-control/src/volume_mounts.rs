//! Volumes that a sandbox is to have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use skep_store::VolumeRecord;
use skep_types::{Mount, MountTarget, VolumeId, VolumeName};

use crate::{Caller, Control, CreateError};

/// Limit on the volumes of one sandbox.
const MOST_MOUNTS: usize = 32;

/// Reason for which no volume is in a bucket, for whoever asks for one.
pub const NO_BUCKETS: &str = "a bucket has no locks, renames or appends, and a mount of one would hold its \
    keys beside hostile code and hang with the network; copy files into a volume instead \
    (`skep volume cp`, the SDKs), or read the bucket from the sandbox";

/// A volume that is asked for with a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRequest {
    /// Name of the volume.
    pub name: String,
    /// Path at which it is to be.
    pub path: String,
    /// True if the sandbox is not to write to it.
    pub read_only: bool,
}

/// Volumes cannot be had as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid mounts:{}", .0.iter().map(|line| format!("\n\t- {line}")).collect::<String>())]
pub struct InvalidMounts(pub Vec<String>);

impl InvalidMounts {
    /// The processes of a snapshot go on where they were, without the volumes.
    pub(crate) fn on_memory() -> Self {
        let line = "a snapshot with memory cannot be given volumes; take one with memory=false";
        Self(vec![line.to_owned()])
    }
}

/// Volumes that are about to be in a sandbox, or are about to go. What a sandbox has is in its
/// order; this is for the time before that is known to everybody.
#[derive(Debug, Clone, Default)]
pub(crate) struct VolumeUses(Arc<Mutex<Uses>>);

#[derive(Debug, Default)]
struct Uses {
    held: HashMap<VolumeId, u32>,
    removed: HashSet<VolumeId>,
}

/// A volume that is not deleted until this is dropped.
#[derive(Debug)]
pub(crate) struct VolumeUse {
    uses: VolumeUses,
    volume: VolumeId,
}

/// A volume that nobody is given until this is dropped.
#[derive(Debug)]
pub(crate) struct VolumeRemoval {
    uses: VolumeUses,
    volume: VolumeId,
}

impl VolumeUses {
    /// Holds a volume; `None` if it is being deleted.
    pub(crate) fn begin(&self, volume: VolumeId) -> Option<VolumeUse> {
        let mut uses = self.0.lock();
        if uses.removed.contains(&volume) {
            return None;
        }
        *uses.held.entry(volume).or_default() += 1;
        let uses = self.clone();
        Some(VolumeUse { uses, volume })
    }

    /// Keeps others from having a volume; `None` if somebody holds it, or deletes it, too.
    pub(crate) fn begin_removal(&self, volume: VolumeId) -> Option<VolumeRemoval> {
        let mut uses = self.0.lock();
        if uses.held.contains_key(&volume) || !uses.removed.insert(volume) {
            return None;
        }
        let uses = self.clone();
        Some(VolumeRemoval { uses, volume })
    }
}

impl Drop for VolumeUse {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock();
        if let Some(count) = uses.held.get_mut(&self.volume) {
            *count -= 1;
            if *count == 0 {
                uses.held.remove(&self.volume);
            }
        }
    }
}

impl Drop for VolumeRemoval {
    fn drop(&mut self) {
        self.uses.0.lock().removed.remove(&self.volume);
    }
}

/// A volume that was asked for and is there.
struct Found {
    mount: Mount,
    held: VolumeUse,
    /// True if nobody writes to the volume, through whatever mount.
    is_snapshot: bool,
}

/// Paths of which the first lies in the volume at the second, if somebody may write to that volume.
///
/// The kernel lets go of a mount when the directory below it is removed in another mount namespace,
/// so any sandbox that shares the outer volume could take the inner one from this sandbox. A mount
/// that only reads is no protection: others write to the volume through theirs.
fn nested<'a>(
    target: &'a MountTarget,
    volume: &VolumeRecord,
    others: &'a [Found],
) -> Option<(&'a MountTarget, &'a MountTarget)> {
    others.iter().find_map(|other| {
        let place = &other.mount.target;
        if !other.is_snapshot && is_below(target, place) {
            Some((target, place))
        } else if !volume.read_only && is_below(place, target) {
            Some((place, target))
        } else {
            None
        }
    })
}

fn is_below(target: &MountTarget, place: &MountTarget) -> bool {
    let below = target.as_str().strip_prefix(place.as_str());
    below.is_some_and(|below| below.starts_with('/'))
}

impl Control {
    /// Finds the volumes that were asked for, and holds them until the sandbox is known to have them.
    pub(crate) async fn resolve_mounts(
        &self,
        caller: &Caller,
        requests: &[MountRequest],
    ) -> Result<(Vec<Mount>, Vec<VolumeUse>), CreateError> {
        if requests.len() > MOST_MOUNTS {
            let line = format!("a sandbox has at most {MOST_MOUNTS} volumes");
            return Err(InvalidMounts(vec![line]).into());
        }
        let (mut found, mut refused) = (Vec::<Found>::new(), Vec::new());
        for (number, request) in requests.iter().enumerate() {
            match self.resolve_mount(caller, request, &found).await? {
                Ok(mount) => found.push(mount),
                Err(reason) => refused.push(format!("volume mount #{number}: {reason}")),
            }
        }
        if !refused.is_empty() {
            return Err(InvalidMounts(refused).into());
        }
        // Those above come before those below them.
        found.sort_by(|one, other| one.mount.target.cmp(&other.mount.target));
        Ok(found
            .into_iter()
            .map(|found| (found.mount, found.held))
            .unzip())
    }

    async fn resolve_mount(
        &self,
        caller: &Caller,
        request: &MountRequest,
        others: &[Found],
    ) -> Result<Result<Found, String>, CreateError> {
        if request.name.contains("://") {
            return Ok(Err(format!(
                "'{}' is a place elsewhere, and volumes are on the server's own disk: {NO_BUCKETS}",
                request.name
            )));
        }
        let missing = || format!("volume '{}' not found", request.name);
        let Ok(name) = request.name.parse() else {
            return Ok(Err(missing()));
        };
        let volumes = self.inner.store.volumes();
        let Some(volume) = volumes.named(&caller.team.id, &name).await? else {
            return Ok(Err(missing()));
        };
        let target = match MountTarget::new(&request.path) {
            Ok(target) => target,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if others.iter().any(|other| other.mount.target == target) {
            return Ok(Err(format!("path '{}' is already used", target.as_str())));
        }
        if let Some((inner, outer)) = nested(&target, &volume, others) {
            return Ok(Err(format!(
                "path '{}' is in the volume at '{}': whoever writes to that volume could take this one away; \
                 choose a path beside it, or put a read-only snapshot there",
                inner.as_str(),
                outer.as_str()
            )));
        }
        let Some(held) = self.inner.volume_uses.begin(volume.id) else {
            return Ok(Err(missing()));
        };
        if !self.is_volume_there(volume.id).await {
            return Ok(Err(format!(
                "the server has lost the files of volume '{name}'; ask the operator to put them back"
            )));
        }
        let mount = Mount {
            volume: volume.id,
            name,
            target,
            read_only: request.read_only || volume.read_only,
        };
        Ok(Ok(Found {
            mount,
            held,
            is_snapshot: volume.read_only,
        }))
    }

    /// Names of the volumes of a sandbox whose files are not on the server any more.
    pub(crate) async fn lost_volumes(&self, mounts: &[Mount]) -> Vec<VolumeName> {
        let mut lost = Vec::new();
        for mount in mounts {
            if !self.is_volume_there(mount.volume).await {
                lost.push(mount.name.clone());
            }
        }
        lost
    }

    async fn is_volume_there(&self, volume: VolumeId) -> bool {
        let found = self.on_backend(move |backend| Ok(backend.is_there(volume)));
        found.await.unwrap_or(false)
    }

    /// Holds the volumes of a sandbox that is there.
    pub(crate) fn hold_volumes(&self, mounts: &[Mount]) -> Vec<VolumeUse> {
        let uses = &self.inner.volume_uses;
        (mounts.iter())
            .filter_map(|mount| uses.begin(mount.volume))
            .collect()
    }
}
