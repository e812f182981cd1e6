//! Safe wrappers over system calls; the only crate with unsafe.
