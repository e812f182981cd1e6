//! Tests of the crate through its boundary.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where, and that is enough"
)]

mod building;
mod collecting;
mod recipes;
mod sharing;
mod workshop;
