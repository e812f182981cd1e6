//! Connections that only read.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::{StoreError, store};

/// Limit on concurrent reads; the rest wait their turn.
const READERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    turns: Semaphore,
    /// Connections nobody uses now.
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            turns: Semaphore::new(READERS),
            idle: Mutex::new(Vec::with_capacity(READERS)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn turns(&self) -> &Semaphore {
        &self.turns
    }

    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = query(&connection);
        let mut idle = self.idle.lock();
        if idle.len() < READERS {
            idle.push(connection);
        }
        result
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let connection = store::connect(&self.path)?;
        connection
            .pragma_update(None, "query_only", true)
            .map_err(|source| StoreError::of("open the database for reading", source))?;
        Ok(connection)
    }
}
