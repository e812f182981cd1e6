//! Images of sandboxes.
//!
//! An image is a directory with the disk and a manifest: everything that it takes to start the same
//! sandbox on that disk. One with memory has the processes beside it, as CRIU writes them, sealed by
//! the manifest. It holds the environment and the tokens of the sandbox, as its agent has
//! them, so it is root's alone. The manifest is written last: a directory without one is no image.
//! If the operator has a key, manifest and processes are encrypted; the disk is not.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use skep_checkpoint::{ImageKey, SealCheck, SealError, Sealed, Sealing};
use skep_host::{Capture, DiskSource, Lease, Leases};
use skep_isolation::{AfterCheckpoint, LaunchRequest, RestoreTarget};
use skep_types::{
    Checkpoint, Egress, ExecutionId, ImageKind, ImagePurpose, Mount, MountTarget, Redacted,
    Resources, SandboxId,
};

use crate::cold;
use crate::encrypted::{ENCRYPTED, PlainForm, PlainForms};
use crate::memory::{MemoryPart, PROCESSES};
use crate::seal_checks::SealChecks;

/// The refusal of an image that was made when the operator had a key.
const NO_KEY: &str = "it is encrypted, and `pause.encryption_key_file` names no key";

type Source = Box<dyn std::error::Error + Send + Sync>;

const DISK: &str = "disk.img";
const MANIFEST: &str = "manifest.json";
/// Its name in an image that is encrypted.
const ENCRYPTED_MANIFEST: &str = "manifest.encrypted";
const VERSION: u32 = 1;
/// Beginnings of the names of images, in the records of checkpoints.
const FILES: &str = "files-";
const MEMORY: &str = "memory-";
/// Beginning of the names of images that are being removed.
const GOING: &str = "going-";
/// Name of the file in a sandbox's directory that says how it was launched.
const ORDER: &str = "launch.json";
/// Name of the file beside it with the configuration that took the place of the first.
const CONFIG: &str = "config.json";

/// A launch, as far as it is the same for every run of a sandbox.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchOrder {
    version: u32,
    layers: Vec<PathBuf>,
    tenant: String,
    cpus: u32,
    memory_mib: u32,
    disk_mib: u32,
    pids: u32,
    agent_config: String,
    /// Volumes; missing in what older servers have written.
    #[serde(default)]
    mounts: Vec<KeptMount>,
}

/// A volume of a launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptMount {
    volume: String,
    name: String,
    target: String,
    read_only: bool,
}

impl KeptMount {
    fn of(mount: &Mount) -> Self {
        Self {
            volume: mount.volume.to_string(),
            name: mount.name.to_string(),
            target: mount.target.as_str().to_owned(),
            read_only: mount.read_only,
        }
    }

    fn read(&self) -> Result<Mount, Source> {
        Ok(Mount {
            volume: self.volume.parse()?,
            name: self.name.parse()?,
            target: MountTarget::new(&self.target)?,
            read_only: self.read_only,
        })
    }
}

impl std::fmt::Debug for LaunchOrder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration holds tokens and the environment.
        let mut shown = formatter.debug_struct("LaunchOrder");
        shown.field("layers", &self.layers).finish_non_exhaustive()
    }
}

/// Contents of an image's manifest.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    /// True if the disk is that of a sandbox that has ended: it is used, not copied.
    is_last: bool,
    order: LaunchOrder,
    /// Missing in an image of files alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryPart>,
}

/// An image that was read.
#[derive(Debug)]
pub(crate) struct MemoryImage {
    pub(crate) path: PathBuf,
    /// Directory with the processes.
    pub(crate) processes: PathBuf,
    /// Keeps them readable, if they are encrypted.
    pub(crate) _plain: Option<Arc<PlainForm>>,
    pub(crate) part: MemoryPart,
    /// Comparison of the processes with their seal.
    pub(crate) check: Arc<SealCheck>,
    /// Configuration that the agent in the image has.
    pub(crate) agent_config: Redacted<Vec<u8>>,
    pub(crate) request: LaunchRequest,
    pub(crate) disk: DiskSource,
}

impl LaunchOrder {
    /// The configuration of the agent.
    pub(crate) fn agent_config(&self) -> Redacted<Vec<u8>> {
        Redacted::new(self.agent_config.clone().into_bytes())
    }

    pub(crate) fn of(request: &LaunchRequest) -> Result<Self, Source> {
        let Resources {
            cpus,
            memory_mib,
            disk_mib,
            pids,
        } = request.resources;
        Ok(Self {
            version: VERSION,
            layers: request.layers.clone(),
            tenant: request.tenant.to_string(),
            cpus,
            memory_mib,
            disk_mib,
            pids,
            agent_config: text(&request.agent_config)?,
            mounts: request.mounts.iter().map(KeptMount::of).collect(),
        })
    }

    /// Places of the volumes.
    fn places(&self) -> Vec<String> {
        let places = self.mounts.iter().map(|mount| mount.target.clone());
        places.collect()
    }

    /// Writes it beside the disk of a sandbox, for images that are made of it. It has to survive the
    /// server, not the host, so nobody waits for the disk.
    pub(crate) fn keep(&self, lease: &Lease) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let path = lease.file(ORDER);
        let new = lease.file("launch.new");
        write_private(&new, &text)?;
        fs::rename(new, path)
    }

    pub(crate) fn kept(lease: &Lease) -> Result<Self, Source> {
        let mut order: Self = serde_json::from_slice(&fs::read(lease.file(ORDER))?)?;
        if order.version != VERSION {
            return Err(format!("version {} is unknown", order.version).into());
        }
        match fs::read_to_string(lease.file(CONFIG)) {
            Ok(config) => order.agent_config = config,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(order)
    }

    /// The launch of the same sandbox.
    fn request(
        self,
        id: SandboxId,
        execution: ExecutionId,
        egress: Egress,
    ) -> Result<LaunchRequest, Source> {
        Ok(LaunchRequest {
            id,
            execution,
            layers: self.layers,
            tenant: self.tenant.parse()?,
            resources: Resources {
                cpus: self.cpus,
                memory_mib: self.memory_mib,
                disk_mib: self.disk_mib,
                pids: self.pids,
            },
            egress,
            mounts: self
                .mounts
                .iter()
                .map(KeptMount::read)
                .collect::<Result<_, _>>()?,
            becomes_layer: false,
            agent_config: Redacted::new(self.agent_config.into_bytes()),
        })
    }
}

/// Replaces the configuration in what is kept of a sandbox's launch. Blocks.
///
/// A file of its own, because a caller waits for it: nothing is read, and little is written.
pub(crate) fn keep_config(lease: &Lease, config: &Redacted<Vec<u8>>) -> io::Result<()> {
    let new = lease.file("config.new");
    write_private(&new, config.reveal())?;
    fs::rename(new, lease.file(CONFIG))
}

/// Brings the memory of an image to its first form, if the host's disk has room for that. Blocks.
fn expand(leases: &Leases, processes: &Path, part: &MemoryPart) -> io::Result<()> {
    let growth = cold::growth(processes, &part.sealed)?;
    let _room = leases.room_for(processes, growth)?;
    cold::expand(processes)
}

/// The images on this host.
#[derive(Debug, Clone)]
pub(crate) struct Images {
    directory: PathBuf,
    checks: Arc<SealChecks>,
    key: Option<ImageKey>,
    plain: Arc<PlainForms>,
    passing: Passing,
}

/// Records of images that this server has made for copies, and hashed nothing of. Held only for a look-up or a
/// change.
type Passing = Arc<Mutex<HashSet<String>>>;

impl Images {
    /// Opens the directory of images and removes what is none: a server was killed while it made
    /// it.
    pub(crate) fn open(directory: PathBuf, key: Option<ImageKey>) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory)?;
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.join(MANIFEST).exists() || path.join(ENCRYPTED_MANIFEST).exists() {
                PlainForm::remove_all(&path)?;
                continue;
            }
            // CRIU of the server that was killed may be writing there still. The next start removes it.
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove incomplete image yet");
            }
        }
        Ok(Self {
            directory,
            checks: Arc::default(),
            key,
            plain: Arc::default(),
            passing: Arc::default(),
        })
    }

    /// Returns true if a checkpoint is one of these.
    pub(crate) fn has(checkpoint: &Checkpoint) -> bool {
        [FILES, MEMORY]
            .iter()
            .any(|prefix| checkpoint.record.starts_with(prefix))
    }

    /// Makes an image of a sandbox whose processes stand. Blocks.
    pub(crate) fn make(&self, lease: &Lease, how: Capture) -> Result<Checkpoint, Source> {
        let order = LaunchOrder::kept(lease)?;
        let new = self.begin(FILES)?;
        let bytes = lease.capture_disk(&new.disk(), how)?;
        new.finish(how == Capture::Keep, order, None, bytes)
    }

    /// Begins an image with memory. Blocks.
    pub(crate) fn begin_memory(&self, after: AfterCheckpoint) -> Result<NewImage, Source> {
        let mut new = self.begin(MEMORY)?;
        new.is_passing = after == AfterCheckpoint::Continue(ImagePurpose::Copy);
        DirBuilder::new().mode(0o700).create(new.processes())?;
        Ok(new)
    }

    /// Makes a second image of the same. Blocks.
    pub(crate) fn copy(
        &self,
        checkpoint: &Checkpoint,
        leases: &Leases,
    ) -> Result<Checkpoint, Source> {
        let (path, manifest) = self.read(checkpoint)?;
        let new = self.begin(if manifest.memory.is_some() {
            MEMORY
        } else {
            FILES
        })?;
        let mut bytes = leases.copy_disk(&path.join(DISK), &new.disk())?;
        if let Some(part) = &manifest.memory {
            let form = if path.join(ENCRYPTED).exists() {
                ENCRYPTED
            } else {
                expand(leases, &path.join(PROCESSES), part)?;
                PROCESSES
            };
            DirBuilder::new().mode(0o700).create(new.path.join(form))?;
            bytes += part.link(form, &path, &new.path)?;
        }
        new.finish(false, manifest.order, manifest.memory, bytes)
    }

    /// An image with memory, for the same sandbox or for another. Blocks.
    pub(crate) fn open_memory(
        &self,
        checkpoint: &Checkpoint,
        target: RestoreTarget,
        leases: &Leases,
    ) -> Result<MemoryImage, Source> {
        let (path, manifest) = self.read(checkpoint)?;
        let part = manifest.memory.ok_or("it holds no memory")?;
        let plain = self.decrypt(checkpoint, &path, leases, &part)?;
        let processes = match &plain {
            Some(plain) => plain.path().to_owned(),
            None => path.join(PROCESSES),
        };
        if plain.is_none() {
            expand(leases, &processes, &part)?;
        }
        let check = if self.passing.lock().contains(&checkpoint.record) {
            Arc::new(SealCheck::passing(processes.clone(), part.sealed.clone()))
        } else {
            (self.checks).of(&processes, &part.sealed)
        };
        let agent_config = manifest.order.agent_config();
        let places = manifest.order.places();
        let copied = DiskSource::Copy(path.join(DISK));
        let (request, disk) = match target {
            RestoreTarget::Same {
                id,
                execution,
                egress,
            } => {
                let disk = if manifest.is_last {
                    DiskSource::Reuse(path.join(DISK))
                } else {
                    copied
                };
                (manifest.order.request(id, execution, egress)?, disk)
            }
            // Who it is and what it may is its own, because the image may be of another one.
            RestoreTarget::RollBack {
                id,
                execution,
                egress,
                own,
            } => {
                let (_, own) = self.read(&own)?;
                let request = own.order.request(id, execution, egress)?;
                let layers = manifest.order.layers;
                (LaunchRequest { layers, ..request }, copied)
            }
            RestoreTarget::Copy(request) => {
                let layers = manifest.order.layers;
                (LaunchRequest { layers, ..*request }, copied)
            }
        };
        // Processes have files open there.
        if LaunchOrder::of(&request)?.places() != places {
            return Err("the sandbox has other volumes than the image".into());
        }
        Ok(MemoryImage {
            path,
            processes,
            _plain: plain,
            part,
            check,
            agent_config,
            request,
            disk,
        })
    }

    /// The launch of the sandbox that an image was made of, and the disk for it. Blocks.
    pub(crate) fn resume(
        &self,
        checkpoint: &Checkpoint,
        (id, execution, egress): (SandboxId, ExecutionId, Egress),
    ) -> Result<(LaunchRequest, DiskSource), Source> {
        let (path, manifest) = self.read(checkpoint)?;
        let disk = path.join(DISK);
        let disk = if manifest.is_last {
            DiskSource::Reuse(disk)
        } else {
            DiskSource::Copy(disk)
        };
        Ok((manifest.order.request(id, execution, egress)?, disk))
    }

    /// The launch of the sandbox that `own` was made of, on a copy of an image's disk. Who it is
    /// and what it may is its own, because the image may have been made of another one. Blocks.
    pub(crate) fn roll_back(
        &self,
        checkpoint: &Checkpoint,
        own: &Checkpoint,
        (id, execution, egress): (SandboxId, ExecutionId, Egress),
    ) -> Result<(LaunchRequest, DiskSource), Source> {
        let (_, own) = self.read(own)?;
        let request = own.order.request(id, execution, egress)?;
        self.copy_for(checkpoint, request)
    }

    /// The launch of another sandbox on a copy of an image's disk. Blocks.
    pub(crate) fn copy_for(
        &self,
        checkpoint: &Checkpoint,
        request: LaunchRequest,
    ) -> Result<(LaunchRequest, DiskSource), Source> {
        let (path, manifest) = self.read(checkpoint)?;
        let layers = manifest.order.layers;
        let request = LaunchRequest { layers, ..request };
        Ok((request, DiskSource::Copy(path.join(DISK))))
    }

    /// Compresses the memory of an image, which nobody else uses meanwhile, if the host's disk has
    /// room for both forms. Blocks.
    pub(crate) fn compress(&self, checkpoint: &Checkpoint, leases: &Leases) -> Result<(), Source> {
        let (path, manifest) = self.read(checkpoint)?;
        // What is encrypted gets no smaller.
        if let Some(part) = manifest.memory.filter(|_| !path.join(ENCRYPTED).exists()) {
            let processes = path.join(PROCESSES);
            let _room = leases.room_for(&processes, part.sealed.bytes())?;
            cold::compress(&processes)?;
        }
        Ok(())
    }

    /// Removes an image. One that is not there is no error. Blocks.
    pub(crate) fn forget(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        let path = self.path(&checkpoint.record)?;
        self.passing.lock().remove(&checkpoint.record);
        // It goes at once: whoever opens it meanwhile finds all of it or nothing. What a killed server
        // leaves is unknown to the next one, which removes it.
        let going = self.directory.join(format!("{GOING}{}", checkpoint.record));
        match fs::rename(path, &going).and_then(|()| fs::remove_dir_all(going)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns true if an image is there, with its disk. Blocks.
    pub(crate) fn is_there(&self, checkpoint: &Checkpoint) -> io::Result<bool> {
        let path = self.path(&checkpoint.record)?;
        let has_manifest =
            path.join(MANIFEST).try_exists()? || path.join(ENCRYPTED_MANIFEST).try_exists()?;
        Ok(has_manifest && path.join(DISK).try_exists()?)
    }

    /// Removes every image but these. Blocks.
    pub(crate) fn retain(&self, kept: &[Checkpoint]) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let is_kept = kept
                .iter()
                .any(|checkpoint| entry.file_name() == checkpoint.record.as_str());
            if !is_kept {
                tracing::info!(path = %entry.path().display(), "removing orphaned image");
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn begin(&self, prefix: &str) -> Result<NewImage, Source> {
        let name = u128::from_ne_bytes(skep_types::random_bytes::<16>());
        let record = format!("{prefix}{name:032x}");
        let path = self.path(&record)?;
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(NewImage {
            directory: self.directory.clone(),
            record,
            path,
            key: self.key.clone(),
            passing: Arc::clone(&self.passing),
            is_passing: false,
            is_finished: false,
        })
    }

    fn read(&self, checkpoint: &Checkpoint) -> Result<(PathBuf, Manifest), Source> {
        let path = self.path(&checkpoint.record)?;
        let encrypted = path.join(ENCRYPTED_MANIFEST);
        let text = match File::open(&encrypted) {
            Ok(mut file) => {
                let key = self.key.as_ref().ok_or(NO_KEY)?;
                let mut text = Vec::new();
                key.decrypt(ENCRYPTED_MANIFEST, &mut file, &mut text)?;
                text
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::read(path.join(MANIFEST))?,
            Err(error) => return Err(error.into()),
        };
        let manifest: Manifest = serde_json::from_slice(&text)?;
        if manifest.version != VERSION {
            return Err(format!("version {} is unknown", manifest.version).into());
        }
        Ok((path, manifest))
    }

    /// Makes the processes of an image readable, if they are encrypted, and the host's disk has room for
    /// that.
    fn decrypt(
        &self,
        checkpoint: &Checkpoint,
        path: &Path,
        leases: &Leases,
        part: &MemoryPart,
    ) -> Result<Option<Arc<PlainForm>>, Source> {
        if !path.join(ENCRYPTED).exists() {
            return Ok(None);
        }
        let key = self.key.as_ref().ok_or(NO_KEY)?;
        let _room = leases.room_for(path, part.sealed.bytes())?;
        let names = part.sealed.names();
        let plain = self.plain.of(&checkpoint.record, path, key, names)?;
        Ok(Some(plain))
    }

    /// Directory of an image. The record comes from the database, and still names nothing else.
    fn path(&self, record: &str) -> io::Result<PathBuf> {
        let mut prefixes = [FILES, MEMORY].into_iter();
        let name = prefixes
            .find_map(|prefix| record.strip_prefix(prefix))
            .unwrap_or_default();
        let is_name = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_name {
            return Err(io::Error::other("the record of an image names none"));
        }
        Ok(self.directory.join(record))
    }
}

/// An image that is being made, removed unless it is finished.
#[derive(Debug)]
pub(crate) struct NewImage {
    directory: PathBuf,
    record: String,
    path: PathBuf,
    key: Option<ImageKey>,
    passing: Passing,
    /// True if it is for copies that are made at once.
    is_passing: bool,
    is_finished: bool,
}

/// The seal of the processes of an image that is being made.
#[derive(Debug)]
pub(crate) enum NewSeal {
    /// Of one that is kept.
    Sealing(Sealing),
    /// Of one that only this server uses, and soon forgets.
    Passing(PathBuf),
}

impl NewSeal {
    /// Waits until everything is hashed, and on the disk if it is to survive the host.
    pub(crate) fn finish(self) -> Result<Sealed, SealError> {
        match self {
            Self::Sealing(sealing) => sealing.finish(),
            Self::Passing(processes) => Sealed::passing(&processes),
        }
    }
}

impl NewImage {
    /// Directory of the image.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Place of the disk.
    pub(crate) fn disk(&self) -> PathBuf {
        self.path.join(DISK)
    }

    /// Place of the processes.
    pub(crate) fn processes(&self) -> PathBuf {
        self.path.join(PROCESSES)
    }

    /// Begins to seal the processes, whose memory is written.
    pub(crate) fn begin_seal(&self) -> Result<NewSeal, SealError> {
        let processes = self.processes();
        if self.is_passing {
            return Ok(NewSeal::Passing(processes));
        }
        let sealing = match self.key {
            Some(_) => Sealing::begin_passing(&processes),
            None => Sealing::begin(&processes),
        };
        sealing.map(NewSeal::Sealing)
    }

    /// Writes the manifest, and returns when the image would survive the host, if it is to. Blocks.
    pub(crate) fn finish(
        mut self,
        is_last: bool,
        order: LaunchOrder,
        memory: Option<MemoryPart>,
        bytes: u64,
    ) -> Result<Checkpoint, Source> {
        let kind = match memory {
            Some(_) => ImageKind::Memory,
            None => ImageKind::Filesystem,
        };
        let manifest = Manifest {
            version: VERSION,
            is_last,
            order,
            memory,
        };
        let text = serde_json::to_vec(&manifest)?;
        match &self.key {
            Some(key) => {
                // One that passes is readable for no longer than what CRIU writes of any other.
                if !self.is_passing {
                    self.encrypt_processes(key)?;
                }
                let file = write_private(&self.path.join(ENCRYPTED_MANIFEST), b"")?;
                key.encrypt(ENCRYPTED_MANIFEST, &mut text.as_slice(), &mut &file)?;
                self.survive(&file)?;
            }
            None => self.survive(&write_private(&self.path.join(MANIFEST), &text)?)?,
        }
        if self.is_passing {
            self.passing.lock().insert(self.record.clone());
        }
        self.is_finished = true;
        Ok(Checkpoint {
            record: std::mem::take(&mut self.record),
            kind,
            bytes,
        })
    }
}

impl NewImage {
    /// Waits until the manifest and the names of the files are on the disk, unless the image is to survive
    /// nothing.
    fn survive(&self, manifest: &File) -> io::Result<()> {
        if self.is_passing {
            return Ok(());
        }
        manifest.sync_all()?;
        for directory in [&self.path, &self.directory] {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Puts the encrypted form of the processes in the place of what CRIU has written. A copy of an
    /// image has it already.
    fn encrypt_processes(&self, key: &ImageKey) -> io::Result<()> {
        let plain = self.processes();
        if !plain.exists() {
            return Ok(());
        }
        skep_checkpoint::encrypt_directory(key, &plain, &self.path.join(ENCRYPTED))?;
        fs::remove_dir_all(plain)
    }
}

impl Drop for NewImage {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        if let Err(left) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), error = %left, "cannot remove incomplete image");
        }
    }
}

fn text(config: &Redacted<Vec<u8>>) -> Result<String, Source> {
    Ok(String::from_utf8(config.reveal().clone())?)
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(record: &str) -> Checkpoint {
        Checkpoint {
            record: record.to_owned(),
            kind: ImageKind::Filesystem,
            bytes: 0,
        }
    }

    #[test]
    fn a_record_names_an_image_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::open(directory.path().join("images"), None).unwrap();
        fs::write(directory.path().join("precious"), "").unwrap();
        for record in ["", "files-", "files-../../precious", "files-/etc", ".."] {
            images.forget(&checkpoint(record)).unwrap_err();
        }
        assert!(directory.path().join("precious").exists());
        let unknown = checkpoint(&format!("files-{}", "0".repeat(32)));
        assert!(!images.is_there(&unknown).unwrap());
        images.forget(&unknown).unwrap();
    }

    #[test]
    fn what_a_killed_server_left_half_made_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let half = directory.path().join("images").join("files-0");
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join(DISK), "half").unwrap();
        Images::open(directory.path().join("images"), None).unwrap();
        assert!(!half.exists());
    }
}
