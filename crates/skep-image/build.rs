//! Lists the Python kernel's files, so that the executable carries them into templates.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const KERNEL: &str = "../../kernels/python";
const PACKAGES: [&str; 2] = ["skep_kernel", "skep_charts"];

fn main() -> io::Result<()> {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(KERNEL);
    let mut files = Vec::new();
    for package in PACKAGES {
        collect(&root, Path::new(package), &mut files)?;
    }
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let place = root.join(file);
        writeln!(list, "({file:?}, include_bytes!({place:?})),")
            .expect("a string takes everything");
    }
    list.push(']');
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("python_kernel.rs"), list)
}

/// Collects the Python files below a folder, and tells cargo to look at the folder again.
fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", root.join(folder).display());
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "__pycache__" {
                collect(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(
                path.to_str()
                    .expect("our own files have plain names")
                    .to_owned(),
            );
        }
    }
    Ok(())
}
