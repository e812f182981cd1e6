//! A mirror between clients and registries of the tests, which misbehave as tests order.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod abuse;
mod caching;
mod registry;
mod site;
