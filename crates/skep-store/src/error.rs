//! Errors of the database.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::ErrorCode;

/// The error below, of whatever engine holds the database. Nobody above looks inside.
type Source = Arc<dyn std::error::Error + Send + Sync>;

/// Failure to write to the database or to read from it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be used at all: no such directory, no permission, not a database.
    #[error("cannot open the database `{}`", path.display())]
    Open {
        /// The database file.
        path: PathBuf,
        /// The error of the file system or of the engine.
        source: Source,
    },
    /// A newer server wrote the file. Only that one, or a newer one still, can use it.
    #[error(
        "database `{}` is of version {found}, and this server knows versions up to {known}",
        path.display()
    )]
    TooNew {
        /// The database file.
        path: PathBuf,
        /// The version it has.
        found: u32,
        /// The newest version this server knows.
        known: u32,
    },
    /// The file is of an older version and could not be brought up to date. It is unchanged.
    #[error("cannot bring the database to version {version}")]
    Migrate {
        /// The version that was tried.
        version: u32,
        /// The error of the engine.
        source: Source,
    },
    /// The disk is full. Nothing was changed; the same call works when there is room again.
    #[error("cannot {operation}: the disk is full")]
    DiskFull {
        /// The operation, as a verb and its object.
        operation: &'static str,
        /// The error of the engine.
        source: Source,
    },
    /// The disk fails. Nothing was changed; the same call works when it is well again.
    #[error("cannot {operation}: the disk fails")]
    DiskFailed {
        /// The operation, as a verb and its object.
        operation: &'static str,
        /// The error of the engine.
        source: Source,
    },
    /// Another process holds the database for longer than we wait. The same call may work later.
    #[error("cannot {operation}: the database is held by another process")]
    Busy {
        /// The operation, as a verb and its object.
        operation: &'static str,
    },
    /// Writes come faster than the disk takes them. The same call may work in a moment.
    #[error("cannot {operation}: too many writes are waiting")]
    QueueFull {
        /// The operation, as a verb and its object.
        operation: &'static str,
    },
    /// The write is queued but was not done in time. It may still happen.
    #[error("gave up waiting to {operation}")]
    Late {
        /// The operation, as a verb and its object.
        operation: &'static str,
    },
    /// The store has been closed, or its writer died.
    #[error("cannot {operation}: the database is closed")]
    Closed {
        /// The operation, as a verb and its object.
        operation: &'static str,
    },
    /// There is one of that name already.
    #[error("{kind} `{name}` exists already")]
    Taken {
        /// Kind of row, such as `team`.
        kind: &'static str,
        /// Name or id of the row.
        name: String,
    },
    /// There is none of that name, or it is not in the state the write was meant for.
    #[error("no {kind} `{name}`")]
    Missing {
        /// Kind of row, such as `team`.
        kind: &'static str,
        /// Name or id of the row.
        name: String,
    },
    /// Anything else that the engine reports.
    #[error("cannot {operation}")]
    Query {
        /// The operation, as a verb and its object.
        operation: &'static str,
        /// The error of the engine.
        source: Source,
    },
}

impl StoreError {
    /// Returns true if the same call may succeed later, without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::QueueFull { .. } | Self::Late { .. } => true,
            Self::Open { .. }
            | Self::TooNew { .. }
            | Self::Migrate { .. }
            | Self::DiskFull { .. }
            | Self::DiskFailed { .. }
            | Self::Closed { .. }
            | Self::Taken { .. }
            | Self::Missing { .. }
            | Self::Query { .. } => false,
        }
    }

    /// Returns true if the disk did not take what was written. It may when there is room again.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::DiskFailed { .. } => true,
            Self::Open { .. }
            | Self::TooNew { .. }
            | Self::Migrate { .. }
            | Self::Busy { .. }
            | Self::QueueFull { .. }
            | Self::Late { .. }
            | Self::Closed { .. }
            | Self::Taken { .. }
            | Self::Missing { .. }
            | Self::Query { .. } => false,
        }
    }

    pub(crate) fn of(operation: &'static str, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull {
                operation,
                source: Arc::new(source),
            },
            Some(ErrorCode::SystemIoFailure) => Self::DiskFailed {
                operation,
                source: Arc::new(source),
            },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { operation },
            _ => Self::Query {
                operation,
                source: Arc::new(source),
            },
        }
    }
}

/// Returns true if a row was refused because one with the same key is there.
pub(crate) fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            || error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE
    })
}
