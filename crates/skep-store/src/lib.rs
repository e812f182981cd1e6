//! The record in SQLite: migrations and one module per aggregate.
