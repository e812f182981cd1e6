//! Lists the kernels' files, so that the executable carries them into templates.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Embedded parts of templates: the directory that recipes copy, the kernel it belongs to, and the
/// files and directories of it that a sandbox needs.
const PARTS: [(&str, &str, &[&str]); 5] = [
    ("kernel/bash", "bash", &["skep_bash"]),
    ("kernel/java", "java", &["build", "start", "src"]),
    (
        "kernel/javascript",
        "javascript",
        &["prepare_cache.js", "skep-javascript-kernel", "src"],
    ),
    // By themselves, so that a change of the kernel does not install them again.
    (
        "kernel/javascript-packages",
        "javascript",
        &["package-lock.json", "package.json"],
    ),
    ("kernel/python", "python", &["skep_charts", "skep_kernel"]),
];

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told by variables"
)]
fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut list = String::from("&[\n");
    for (target, kernel, parts) in PARTS {
        let root = manifest.join("../../kernels").join(kernel);
        let mut files = Vec::new();
        for part in parts {
            collect(&root, Path::new(part), &mut files)?;
        }
        files.sort();
        for file in files {
            let name = Path::new(target).join(&file);
            let place = root.join(&file);
            writeln!(list, "({name:?}, include_bytes!({place:?})),")
                .expect("a string takes everything");
        }
    }
    list.push(']');
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("kernels.rs"), list)
}

/// Collects a file, or the files below a directory, and tells cargo to look at it again.
fn collect(root: &Path, part: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let place = root.join(part);
    println!("cargo::rerun-if-changed={}", place.display());
    if !place.is_dir() {
        files.push(part.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name();
        if name != "__pycache__" {
            collect(root, &part.join(name), files)?;
        }
    }
    Ok(())
}
