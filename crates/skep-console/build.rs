//! Packs the built pages of `console/dist` into one table: paths, kinds, marks and compressed bytes.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told by variables"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/dist");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    collect(&dist, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        println!("cargo::rerun-if-changed={}", file.display());
        let bytes = std::fs::read(file)?;
        let path = file
            .strip_prefix(&dist)?
            .to_str()
            .ok_or("names are UTF-8")?;
        let packed = out.join(format!("{number}.gz"));
        // Without a time, so that two builds are alike.
        let mut packer = GzBuilder::new().write(Vec::new(), Compression::best());
        packer.write_all(&bytes)?;
        std::fs::write(&packed, packer.finish()?)?;
        let mark = hex::encode(Sha256::digest(&bytes));
        writeln!(
            table,
            "Asset {{ path: {path:?}, kind: {kind:?}, mark: \"\\\"{mark}\\\"\", packed: include_bytes!({packed:?}) }},",
            kind = kind(path)?,
        )?;
    }
    table.push(']');
    std::fs::write(out.join("assets.rs"), table)?;
    Ok(())
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn kind(path: &str) -> Result<&'static str, String> {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    Ok(match extension {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => return Err(format!("{path}: no such file is served")),
    })
}
