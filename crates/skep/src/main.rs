//! The `skep` executable.

fn main() {}
