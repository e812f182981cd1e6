//! The agent as its callers see it: over HTTP, on a loopback port of its own.

mod agent;
mod connect;
mod files;
mod filesystem;
mod process;
mod routes;
