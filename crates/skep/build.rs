//! Embeds the executable of a sandbox, if one is named.
//!
//! `make build` builds `skep-guest` first and names it here. Without a name, as in `cargo build`
//! and `cargo test`, nothing is embedded and the server executes its own file in sandboxes.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Variable with the path of the executable to embed.
const GUEST: &str = "SKEP_GUEST";

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told by variables and answers on standard output"
)]
fn main() {
    println!("cargo::rerun-if-env-changed={GUEST}");
    let directory = std::env::var("OUT_DIR").expect("cargo sets it");
    let guest = std::env::var(GUEST).ok().filter(|path| !path.is_empty());
    let source = match guest {
        Some(path) => {
            println!("cargo::rerun-if-changed={path}");
            embedding(Path::new(&path))
        }
        None => "None".to_owned(),
    };
    std::fs::write(Path::new(&directory).join("guest.rs"), source)
        .expect("cargo made the directory");
}

/// An expression that is the executable, with the name under which it is kept.
fn embedding(path: &Path) -> String {
    let path: PathBuf = path
        .canonicalize()
        .unwrap_or_else(|error| panic!("{GUEST} names `{}`: {error}", path.display()));
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("cannot read `{}`: {error}", path.display()));
    let id = hex::encode(Sha256::digest(&bytes));
    format!("Some(AgentBuild {{ id: {id:?}, bytes: include_bytes!({path:?}) }})")
}
