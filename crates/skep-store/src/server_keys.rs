//! Keys of the server itself.

use rusqlite::params;

use crate::{Receipt, Store, StoreError};

/// The server's keys in the database.
#[derive(Debug)]
pub struct ServerKeys<'a>(pub(crate) &'a Store);

impl ServerKeys<'_> {
    /// Returns the key of this name; `new` if there was none, which it is from then on.
    pub fn get_or_insert(&self, name: &'static str, new: [u8; 32]) -> Receipt<Vec<u8>> {
        let operation = "read a key of the server";
        self.0.write(operation, move |connection| {
            let write = || {
                connection
                    .prepare_cached(
                        "INSERT INTO server_keys (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![name, new])?;
                connection
                    .prepare_cached("SELECT value FROM server_keys WHERE name = ?1")?
                    .query_row([name], |row| row.get(0))
            };
            write().map_err(|source| StoreError::of(operation, source))
        })
    }
}
