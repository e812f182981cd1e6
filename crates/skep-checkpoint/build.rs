//! Compiles the library that stands in for a right that the root of some hosts lacks.

use std::path::PathBuf;
use std::process::Command;

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told by variables"
)]
fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-env-changed=CC");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let directory = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let library = PathBuf::from(directory).join("shim.so");
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg("src/shim.c")
        .status()
        .expect("the C compiler runs: SQLite needs one, too");
    assert!(status.success(), "src/shim.c does not compile: {status}");
}
