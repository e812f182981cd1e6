//! The specification of a template's zygote, in the `kernel.json` of its Python kernel:
//! `"zygote": {"argv": ["python", "-m", "skep_kernel.zygote", "numpy"], "env": {…}}`; and the modules
//! that a template of a caller's wants to be imported, too, each on a line of a file of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::Deserialize;

const FILE: &str = "usr/local/share/skep/kernels/python/kernel.json";
const PRELOAD: &str = "usr/local/share/skep/preload.txt";
const LONGEST_FILE: u64 = 64 << 10;

/// Most modules that a template adds: each is an argument of a process.
const MOST_MODULES: usize = 64;

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
    let Some(text) = read_uppermost(layers, FILE)? else {
        return Ok(None);
    };
    let kernel: Option<Kernel> = serde_json::from_slice(&text).ok();
    let zygote = kernel.and_then(|kernel| kernel.zygote);
    let Some(mut zygote) = zygote.filter(|zygote| !zygote.argv.is_empty()) else {
        return Ok(None);
    };
    let preload = read_uppermost(layers, PRELOAD)?.unwrap_or_default();
    zygote.argv.extend(modules(&preload));
    Ok(Some(zygote))
}

/// The names in a list of modules. What is no name of one is left out.
fn modules(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let is_part = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_')
    };
    let lines = text.lines().map(str::trim);
    let named = lines.filter(|line| line.split('.').all(is_part));
    named.take(MOST_MODULES).map(str::to_owned).collect()
}

/// A file of the uppermost layer that has it.
fn read_uppermost(layers: &[PathBuf], file: &str) -> io::Result<Option<Vec<u8>>> {
    for layer in layers.iter().rev() {
        if let Some(text) = read(layer, file)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// The file of a layer, if it has one.
fn read(layer: &Path, file: &str) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let layer = rustix::fs::openat(CWD, layer, flags, Mode::empty())?;
    // A layer holds what its author put there: no link is followed, and nothing waits.
    let opened = rustix::fs::openat2(
        &layer,
        file,
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
    fn a_template_adds_modules_to_those_of_its_base() {
        let lower = layer(r#"{"zygote": {"argv": ["python", "numpy"]}}"#);
        let upper = tempfile::tempdir().unwrap();
        let file = upper.path().join(PRELOAD);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "polars\n# no\n-c\n\n os.path \nx y\n../z\n").unwrap();
        let layers = [&lower, &upper].map(|layer| layer.path().to_owned());
        let found = find(&layers).unwrap().unwrap();
        assert_eq!(found.argv, ["python", "numpy", "polars", "os.path"]);
        // Without a kernel there is nothing to add to.
        assert_eq!(find(&layers[1..]).unwrap(), None);
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
