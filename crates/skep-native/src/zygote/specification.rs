//! The specification of a template's zygote, in the `kernel.json` of its Python kernel:
//! `"zygote": {"argv": ["python", "-m", "skep_kernel.zygote", "numpy"], "env": {…}}`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::Deserialize;

const FILE: &str = "usr/local/share/skep/kernels/python/kernel.json";
const LONGEST_FILE: u64 = 64 << 10;

/// Command line and environment of a zygote. Written by whoever made the template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Specification {
    pub(super) argv: Vec<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Kernel {
    zygote: Option<Specification>,
}

/// Returns true if the kernels of a template are forked, where that is on. Blocks for a look at
/// files.
///
/// # Errors
///
/// If a layer cannot be read, so that nobody knows.
pub fn has_zygote(layers: &[PathBuf]) -> io::Result<bool> {
    find(layers).map(|found| found.is_some())
}

/// The specification in the uppermost layer that has a `kernel.json`.
pub(super) fn find(layers: &[PathBuf]) -> io::Result<Option<Specification>> {
    for layer in layers.iter().rev() {
        if let Some(text) = read(layer)? {
            let kernel: Option<Kernel> = serde_json::from_slice(&text).ok();
            let zygote = kernel.and_then(|kernel| kernel.zygote);
            return Ok(zygote.filter(|zygote| !zygote.argv.is_empty()));
        }
    }
    Ok(None)
}

/// The file of a layer, if it has one.
fn read(layer: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let layer = rustix::fs::openat(CWD, layer, flags, Mode::empty())?;
    // A layer holds what its author put there: no link is followed, and nothing waits.
    let opened = rustix::fs::openat2(
        &layer,
        FILE,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    );
    let file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(LONGEST_FILE).read_to_end(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn layer(text: &str) -> tempfile::TempDir {
        let layer = tempfile::tempdir().unwrap();
        let file = layer.path().join(FILE);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        layer
    }

    #[test]
    fn the_uppermost_layer_that_has_a_kernel_decides() {
        let lower = layer(r#"{"argv": [], "zygote": {"argv": ["lower"]}}"#);
        let upper = layer(r#"{"argv": [], "zygote": {"argv": ["upper"], "env": {"A": "b"}}}"#);
        let none = tempfile::tempdir().unwrap();
        let layers = [&lower, &upper, &none].map(|layer| layer.path().to_owned());
        assert_eq!(find(&layers).unwrap().unwrap().argv, ["upper"]);
        assert_eq!(find(&layers[..1]).unwrap().unwrap().argv, ["lower"]);
        assert_eq!(find(&layers[2..]).unwrap(), None);
    }

    #[test]
    fn a_kernel_without_a_zygote_and_nonsense_have_none() {
        for text in [
            r#"{"argv": ["python"]}"#,
            "{",
            r#"{"zygote": {"argv": []}}"#,
        ] {
            let layer = layer(text);
            assert_eq!(find(&[layer.path().to_owned()]).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let real = layer(r#"{"zygote": {"argv": ["real"]}}"#);
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(real.path().join("usr"), other.path().join("usr")).unwrap();
        assert_eq!(find(&[other.path().to_owned()]).unwrap(), None);
    }

    #[test]
    fn of_a_layer_that_cannot_be_read_nobody_knows() {
        let layer = layer(r#"{"zygote": {"argv": ["real"]}}"#);
        let missing = layer.path().join("missing");
        let layers = [layer.path().to_owned(), missing];
        assert!(has_zygote(&layers[..1]).unwrap());
        has_zygote(&layers).unwrap_err();
    }
}
