//! Images that somebody with root's rights has edited.
//!
//! Whoever only edits is found out by the seal. Whoever seals anew is found out when the tasks stand,
//! before any of them runs. The control of each is a server that does not look at them: what was
//! edited runs there.

#[expect(unused_imports, reason = "its own tests are none of these")]
#[path = "../../../skep-checkpoint/src/message.rs"]
mod message;

use std::fs;
use std::path::{Path, PathBuf};

use message::{Field, Value, read, write};
use skep_isolation::{
    AfterCheckpoint, Isolation as _, LaunchError, LaunchRequest, Launched, RestoreRequest,
};
use skep_native::Defence;
use skep_types::{Checkpoint, ImageKind, ImagePurpose};

use crate::bench::{Bench, ask};
use crate::checkpoint::{checkpoints, dump, kept, same, start_work};

crate::tests![
    edited_images_are_refused_before_anything_runs,
    edited_images_run_where_nobody_looks,
];

/// One edit of every file of an image whose name begins with something.
struct Edit {
    name: &'static str,
    file: &'static str,
    /// Edit of one message; `None` leaves it out.
    edit: fn(Vec<Field>) -> Option<Vec<Field>>,
    /// Property in which the tasks differ then.
    found: &'static str,
}

/// Fields of CRIU's messages.
mod field {
    pub(super) const THREAD_CORE: u64 = 5;
    pub(super) const CREDS: u64 = 10;
    pub(super) const SECCOMP_MODE: u64 = 11;
    pub(super) const SECCOMP_FILTER: u64 = 12;
    pub(super) const CAPABILITIES: [u64; 4] = [9, 10, 11, 12];
    pub(super) const PERMITTED: [u64; 2] = [10, 11];
    pub(super) const SETS: u64 = 1;
    pub(super) const CONTROLS: u64 = 2;
    pub(super) const CONTROL_NAME: u64 = 1;
    pub(super) const CONTROL_PATH: u64 = 2;
    pub(super) const CONTROL_PREFIX: u64 = 3;
    pub(super) const EXTENT_COUNT: u64 = 3;
    pub(super) const MOUNT_FLAGS: u64 = 5;
    pub(super) const MOUNT_POINT: u64 = 7;
    pub(super) const UTS_NAMESPACE: u64 = 8;
}

/// Word of the set of capabilities that has the first process's mark, and the mark in it.
const MARK: (usize, u64) = (1, 1 << 3);

const EDITS: [Edit; 8] = [
    Edit {
        name: "every capability",
        file: "core-",
        edit: |core| {
            Some(in_credentials(core, |creds| {
                set_all(creds, &field::CAPABILITIES, u64::from(u32::MAX));
            }))
        },
        found: "CapBnd",
    },
    Edit {
        name: "a first process without its mark",
        file: "core-1.img",
        edit: |core| {
            Some(in_credentials(core, |creds| {
                for number in field::PERMITTED {
                    let mut words = creds.iter_mut().filter(|field| field.number == number);
                    if let Some(Field { value, .. }) = words.nth(MARK.0)
                        && let Value::Varint(word) = value
                    {
                        *word &= !MARK.1;
                    }
                }
            }))
        },
        found: "CapPrm",
    },
    Edit {
        name: "more users than a sandbox has",
        file: "userns-",
        edit: |maps| {
            Some(nested(maps, &[1, 2], &|extent| {
                set_all(extent, &[field::EXTENT_COUNT], 2 * 65_536);
            }))
        },
        found: "uid_map",
    },
    Edit {
        name: "no filter",
        file: "core-",
        edit: |core| {
            Some(nested(core, &[field::THREAD_CORE], &|thread| {
                thread.retain(|part| {
                    ![field::SECCOMP_MODE, field::SECCOMP_FILTER].contains(&part.number)
                });
            }))
        },
        found: "Seccomp",
    },
    Edit {
        name: "no limit of memory",
        file: "cgroup.img",
        edit: |groups| {
            Some(nested(groups, &[field::SETS], &|set| {
                *set = nested(std::mem::take(set), &[field::CONTROLS], &|control| {
                    if text(control, field::CONTROL_NAME).as_deref() == Some("memory") {
                        raise(control);
                    }
                });
            }))
        },
        found: "cgroup",
    },
    Edit {
        name: "a mask less",
        file: "mountpoints-",
        edit: |mount| {
            let point = text(&mount, field::MOUNT_POINT)?;
            (!point.ends_with("/proc/keys")).then_some(mount)
        },
        found: "mounts",
    },
    Edit {
        name: "settings of the kernel that can be written",
        file: "mountpoints-",
        edit: |mut mount| {
            if text(&mount, field::MOUNT_POINT)?.ends_with("/proc/sys") {
                for part in &mut mount {
                    if let (field::MOUNT_FLAGS, Value::Varint(flags)) =
                        (part.number, &mut part.value)
                    {
                        *flags &= !u64::from(rustix::mount::MountFlags::RDONLY.bits());
                    }
                }
            }
            Some(mount)
        },
        found: "mounts",
    },
    Edit {
        name: "the host's name",
        file: "ids-",
        edit: |mut ids| {
            set_all(&mut ids, &[field::UTS_NAMESPACE], HOSTS_NAME);
            Some(ids)
        },
        found: "uts",
    },
];

/// Number in CRIU's images of the namespace of host names that CRIU itself was in: tasks that have it share that of
/// whoever restores them.
const HOSTS_NAME: u64 = 4;

/// Leaves of a path of cgroups only the server's own group, which has no limits.
fn raise(control: &mut [Field]) {
    let path = text(control, field::CONTROL_PATH).unwrap();
    let top = path.split('/').find(|name| name.starts_with("skep-"));
    let end = path.find(top.unwrap()).unwrap() + top.unwrap().len();
    for part in control {
        match (part.number, &mut part.value) {
            (field::CONTROL_PATH, Value::Bytes(path)) => path.truncate(end),
            (field::CONTROL_PREFIX, Value::Varint(length)) => *length = end as u64,
            _ => {}
        }
    }
}

fn text(message: &[Field], number: u64) -> Option<String> {
    message.iter().find_map(|part| match &part.value {
        Value::Bytes(bytes) if part.number == number => String::from_utf8(bytes.clone()).ok(),
        Value::Bytes(_) | Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
    })
}

/// Edits the messages that are fields with these numbers.
fn nested(message: Vec<Field>, numbers: &[u64], edit: &dyn Fn(&mut Vec<Field>)) -> Vec<Field> {
    let edited = message.into_iter().map(|mut part| {
        if let Value::Bytes(bytes) = &mut part.value
            && numbers.contains(&part.number)
        {
            let mut inner = read(bytes).unwrap();
            edit(&mut inner);
            *bytes = write(&inner);
        }
        part
    });
    edited.collect()
}

fn in_credentials(core: Vec<Field>, edit: fn(&mut Vec<Field>)) -> Vec<Field> {
    nested(core, &[field::THREAD_CORE], &|thread| {
        *thread = nested(std::mem::take(thread), &[field::CREDS], &|creds| {
            edit(creds)
        });
    })
}

fn set_all(message: &mut [Field], numbers: &[u64], wanted: u64) {
    for part in message {
        if let Value::Varint(value) = &mut part.value
            && numbers.contains(&part.number)
        {
            *value = wanted;
        }
    }
}

/// Applies an edit to an image: two numbers that say what it is, then messages with their lengths.
fn edit_file(path: &Path, edit: &Edit) {
    let image = fs::read(path).unwrap();
    let (head, mut rest) = image.split_at(8);
    let mut edited = head.to_vec();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
        let (message, after) = after.split_at(length);
        if let Some(message) = (edit.edit)(read(message).unwrap()) {
            let message = write(&message);
            edited.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
            edited.extend(message);
        }
        rest = after;
    }
    fs::write(path, edited).unwrap();
}

/// Seal of an image that was edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seal {
    Old,
    New,
}

/// An image of a sandbox with a process beside its agent, and the files of it as they were.
struct Original {
    bench: Bench,
    request: LaunchRequest,
    checkpoint: Checkpoint,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Original {
    async fn make(without: &[Defence]) -> Self {
        let bench = Bench::with(|config| {
            config.checkpoints = Some(checkpoints());
            config.without = without.to_vec();
        })
        .await;
        let request = bench.request();
        let sandbox = bench.native().launch(request.clone()).await.unwrap();
        start_work(&sandbox, "keep").await;
        kept(&sandbox).await;
        // One that goes on keeps its disk, so that the image can be restored more than once.
        let checkpoint = dump(&sandbox, AfterCheckpoint::Continue(ImagePurpose::Keep)).await;
        sandbox.destroy().await.unwrap();
        drop(sandbox);
        let image = (bench.config.host.data_dir.join("images")).join(&checkpoint.record);
        let processes = fs::read_dir(image.join("processes"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let all = processes.chain([image.join("manifest.json")]);
        let files = all.map(|path| {
            let content = fs::read(&path).unwrap();
            (path, content)
        });
        Self {
            files: files.collect(),
            bench,
            request,
            checkpoint,
        }
    }

    /// Edits the image as it was.
    fn edit(&self, edit: &Edit, seal: Seal) {
        let mut edited = 0;
        for (path, before) in &self.files {
            // Other images have links to the same files.
            fs::remove_file(path).unwrap();
            fs::write(path, before).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with(edit.file) {
                edit_file(path, edit);
                edited += 1;
            }
        }
        assert!(edited > 0, "{}: no file `{}`", edit.name, edit.file);
        if seal == Seal::Old {
            return;
        }
        let (manifest, text) = self.files.last().unwrap();
        let mut content: serde_json::Value = serde_json::from_slice(text).unwrap();
        let sealed = skep_checkpoint::seal(&manifest.with_file_name("processes")).unwrap();
        content["memory"]["sealed"] = serde_json::to_value(sealed).unwrap();
        fs::write(manifest, serde_json::to_vec(&content).unwrap()).unwrap();
    }

    async fn restore(&self) -> Result<Launched, LaunchError> {
        let request = RestoreRequest {
            checkpoint: self.checkpoint.clone(),
            kind: ImageKind::Memory,
            target: same(&self.request),
        };
        self.bench.native().restore(request).await
    }

    async fn refusal(&self, name: &str) -> String {
        match self.restore().await {
            Ok(_) => panic!("{name}: it runs"),
            Err(refused) => skep_telemetry::Chain(&refused).to_string(),
        }
    }

    async fn finish(self) {
        let forgotten = self.bench.native().forget_checkpoint(self.checkpoint);
        forgotten.await.unwrap();
        self.bench.finish().await;
    }
}

async fn edited_images_are_refused_before_anything_runs() {
    let original = Original::make(&[]).await;
    for edit in &EDITS {
        original.edit(edit, Seal::Old);
        let text = original.refusal(edit.name).await;
        assert!(
            text.contains("not as it was written"),
            "{}: {text}",
            edit.name
        );
        original.edit(edit, Seal::New);
        let text = original.refusal(edit.name).await;
        let wanted = format!("its {} is", edit.found);
        assert!(text.contains(&wanted), "{}: {text}", edit.name);
        original.bench.wait_until_empty().await;
    }
    original.finish().await;
}

async fn edited_images_run_where_nobody_looks() {
    let original = Original::make(&[Defence::InspectedTasks]).await;
    for edit in &EDITS {
        original.edit(edit, Seal::New);
        let sandbox = original.restore().await.unwrap_or_else(|error| {
            panic!("{}: {}", edit.name, skep_telemetry::Chain(&error));
        });
        assert_eq!(ask(&sandbox, "config").await, "normal", "{}", edit.name);
        sandbox.destroy().await.unwrap();
    }
    original.finish().await;
}
