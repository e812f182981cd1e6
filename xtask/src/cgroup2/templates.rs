//! The disk with the templates, as this host has built them, and CRIU, as it was fetched here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use super::guest_root::fingerprint;
use super::payload::Built;
use super::tools::{as_root, make_image, remove, remove_others, run, tell};

/// Templates that the checks use.
const TEMPLATES: [&str; 2] = ["base", "code-interpreter-slim"];

/// Directory of CRIU in a cache.
const CRIU: &str = "criu";

const SIZE: &str = "8G";

/// Builds the templates that are missing, fetches CRIU if it is, and copies both to a disk if they
/// have changed.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of developers is its own `main`"
)]
pub(super) fn disk(root: &Path, cache: &Path, built: &Built) -> anyhow::Result<PathBuf> {
    // The same as that of the tests, so that they are built once.
    let beside = || root.join(".cache/skep");
    let store = std::env::var_os("SKEP_CACHE_DIR").map_or_else(beside, PathBuf::from);
    for name in TEMPLATES {
        tell(&format!("building template {name}"));
        run(as_root(&built.skep)
            .args(["template", "build", name, "--cache-dir"])
            .arg(&store))?;
    }
    let mut texts = Vec::new();
    for name in TEMPLATES {
        let path = store.join("images").join(format!("{name}.json"));
        let text = run(as_root("cat").arg(&path))?.stdout;
        texts.push(String::from_utf8(text).context("an image's description is no text")?);
    }
    let criu = fetch_criu(&store, cache, built)?;
    let keys: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .chain([criu.as_str()])
        .collect();
    let disk = cache.join(format!("templates-{:016x}.img", fingerprint(&keys)));
    if disk.exists() {
        return Ok(disk);
    }
    tell("copying the templates");
    let tree = cache.join("templates");
    remove(&tree)?;
    for directory in ["images", "layers"] {
        run(as_root("mkdir").arg("-p").arg(tree.join(directory)))?;
        run(as_root("chmod").arg("700").arg(tree.join(directory)))?;
    }
    for (name, text) in TEMPLATES.iter().zip(&texts) {
        let image = format!("images/{name}.json");
        copy(&store.join(&image), &tree.join(&image))?;
        for layer in layers(text)? {
            let layer = format!("layers/{layer}");
            if !fs::exists(tree.join(&layer)).unwrap_or(false) {
                copy(&store.join(&layer), &tree.join(&layer))?;
            }
        }
    }
    copy(&store.join(CRIU), &tree.join(CRIU))?;
    remove_others(cache, "templates-", &disk)?;
    make_image(&tree, &disk, SIZE)?;
    remove(&tree)?;
    Ok(disk)
}

/// Fetches CRIU if it is missing, and returns a text that is another for another one.
fn fetch_criu(store: &Path, cache: &Path, built: &Built) -> anyhow::Result<String> {
    let criu = store.join(CRIU);
    if !criu.is_dir() {
        tell("fetching criu");
        run(as_root(&built.skep)
            .args(["doctor", "--fetch", "--data-dir"])
            .arg(cache.join("doctor"))
            .arg("--cache-dir")
            .arg(store))?;
    }
    let listed = run(as_root("find")
        .arg(&criu)
        .args(["-type", "f", "-printf", "%P %s %T@\n"]))?;
    String::from_utf8(listed.stdout).context("a file of criu has no name")
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    run(as_root("cp").arg("-a").arg("-T").arg(from).arg(to))?;
    Ok(())
}

/// The layers of an image.
fn layers(image: &str) -> anyhow::Result<Vec<String>> {
    let image: Value = serde_json::from_str(image).context("an image's description is no JSON")?;
    let layers = image["layers"]
        .as_array()
        .context("an image without layers")?;
    let names = layers.iter().map(|layer| layer.as_str().map(str::to_owned));
    names
        .collect::<Option<_>>()
        .context("a layer without a name")
}
