//! Writes `src/generated` of `skep-wire` from its `proto` directory.
//!
//! The result is committed, so that building the product needs no protobuf compiler:
//!
//! ```text
//! cargo run --manifest-path crates/skep-wire/codegen/Cargo.toml
//! ```

use std::error::Error;
use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let wire = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("the generator lies inside the crate it writes for")?;
    let protos = wire.join("proto");
    let files = [protos.join("process.proto"), protos.join("filesystem.proto")];

    // protox compiles in pure Rust what protoc would; the generator takes its descriptor set.
    let descriptors = protox::compile(&files, [&protos])?;
    let descriptor_file = std::env::temp_dir().join(format!("skep-wire-{}.bin", std::process::id()));
    std::fs::write(&descriptor_file, descriptors.encode_to_vec())?;

    // Owned messages only: handlers are registered by name on the router, so views and service
    // stubs would be five times this code with no caller.
    let generated = buffa_build::Config::new()
        .descriptor_set(&descriptor_file)
        .files(&["process.proto", "filesystem.proto"])
        .out_dir(wire.join("src/generated"))
        .include_file("rpc.rs")
        .file_per_package(true)
        .generate_views(false)
        .generate_json(true)
        .generate_with_setters(false)
        .preserve_unknown_fields(false)
        .use_bytes_type()
        .map_type(buffa_build::MapRepr::BTreeMap)
        .compile();
    std::fs::remove_file(&descriptor_file)?;
    Ok(generated?)
}
