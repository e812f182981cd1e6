//! One program with all fuzz targets: `skep-fuzz --target=<name> [libFuzzer's arguments]`.
//!
//! A target gets bytes and panics if a promise is broken. libFuzzer looks for bytes that reach
//! new code; `cargo xtask fuzz` builds and runs it. Arguments with two dashes are ours:
//! libFuzzer passes them over.

#![no_main]

mod http_text;
mod jail;
mod pieces;
mod shape;
mod stage;
mod targets;
mod tree;

use std::sync::OnceLock;

use targets::Target;

static CHOSEN: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let target = targets::named_in(std::env::args());
        CHOSEN.get_or_init(|| target);
    },
    |data: &[u8]| {
        let target = CHOSEN.get().expect("libFuzzer initialises first");
        target(data);
    }
);
