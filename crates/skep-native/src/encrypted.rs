//! Processes of images that are encrypted, in the form that CRIU reads.
//!
//! It is there as long as somebody restores the image, in a directory of its own beside the encrypted
//! form, for root alone; those who restore it at the same time share it. What a killed server leaves,
//! the next one removes.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use skep_checkpoint::ImageKey;

/// Directory of an image with its processes, encrypted.
pub(crate) const ENCRYPTED: &str = "encrypted";
/// Beginning of the names of those with the same in plain.
const PLAIN: &str = "plain-";

/// The processes of an image in plain, removed when nobody needs them any more.
#[derive(Debug)]
pub(crate) struct PlainForm {
    path: PathBuf,
}

impl PlainForm {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what a killed server has left of an image in plain.
    pub(crate) fn remove_all(image: &Path) -> io::Result<()> {
        for entry in fs::read_dir(image)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PLAIN) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn make<'a>(
        image: &Path,
        key: &ImageKey,
        names: impl Iterator<Item = &'a str>,
    ) -> io::Result<Self> {
        let name = u128::from_ne_bytes(skep_types::random_bytes::<16>());
        let plain = Self {
            path: image.join(format!("{PLAIN}{name:032x}")),
        };
        DirBuilder::new().mode(0o700).create(&plain.path)?;
        let encrypted = image.join(ENCRYPTED);
        for name in names {
            key.decrypt_file(name, &encrypted.join(name), &plain.path.join(name))?;
        }
        Ok(plain)
    }
}

impl Drop for PlainForm {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.path) {
            // With the whole image, which somebody has deleted.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "memory of a sandbox is left in plain");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// A form that somebody may have, or is making.
type Slot = Arc<Mutex<Weak<PlainForm>>>;

/// The forms that somebody needs now, by the names of the images.
#[derive(Debug, Default)]
pub(crate) struct PlainForms {
    /// Held only for a look-up or a change; a slot is held while its form is made.
    slots: Mutex<HashMap<String, Slot>>,
}

impl PlainForms {
    /// The form of an image that somebody has already, or a new one. Blocks.
    pub(crate) fn of<'a>(
        &self,
        record: &str,
        image: &Path,
        key: &ImageKey,
        names: impl Iterator<Item = &'a str>,
    ) -> io::Result<Arc<PlainForm>> {
        let slot = {
            let mut slots = self.slots.lock();
            slots.retain(|_, slot| {
                let is_being_made = Arc::strong_count(slot) > 1;
                is_being_made || slot.lock().strong_count() > 0
            });
            Arc::clone(slots.entry(record.to_owned()).or_default())
        };
        let mut form = slot.lock();
        if let Some(form) = form.upgrade() {
            return Ok(form);
        }
        let made = Arc::new(PlainForm::make(image, key, names)?);
        *form = Arc::downgrade(&made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn key(directory: &Path) -> ImageKey {
        let path = directory.join("key");
        fs::write(&path, "07".repeat(32)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        ImageKey::read(&path).unwrap()
    }

    fn count(image: &Path) -> usize {
        fs::read_dir(image).unwrap().count()
    }

    #[test]
    fn those_who_restore_at_the_same_time_share_a_form_that_goes_with_the_last() {
        let directory = tempfile::tempdir().unwrap();
        let key = key(directory.path());
        let image = directory.path().join("image");
        let written = directory.path().join("processes");
        for directory in [&image, &written] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(written.join("core-1.img"), "registers").unwrap();
        skep_checkpoint::encrypt_directory(&key, &written, &image.join(ENCRYPTED)).unwrap();
        let forms = PlainForms::default();
        let form = || {
            let names = ["core-1.img"].into_iter();
            forms.of("memory-0", &image, &key, names).unwrap()
        };
        let (first, second) = (form(), form());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(
            fs::read_to_string(first.path().join("core-1.img")).unwrap(),
            "registers"
        );
        drop(first);
        assert_eq!(count(&image), 2, "somebody has it");
        drop(second);
        assert_eq!(count(&image), 1, "only the encrypted form is left");
        // A server that is killed drops nothing.
        fs::create_dir(image.join(format!("{PLAIN}0"))).unwrap();
        PlainForm::remove_all(&image).unwrap();
        assert_eq!(count(&image), 1);
        // One that cannot be made leaves nothing.
        forms
            .of("memory-1", &image, &key, ["none"].into_iter())
            .unwrap_err();
        assert_eq!(count(&image), 1);
    }
}
