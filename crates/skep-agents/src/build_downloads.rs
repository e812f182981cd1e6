//! Downloads of package clients, as the sandbox of a step sees them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use skep_build::{DOWNLOADS, Downloads, Generation};
use skep_image::ContentKey;
use skep_isolation::Apart;
use tempfile::TempDir;

/// Most bytes of downloads that one step adds.
const MOST_ADDED: u64 = 4 << 30;

/// The downloads that a sandbox sees, and to which it adds its own.
#[derive(Debug, Clone)]
pub(super) struct BuildDownloads {
    all: Arc<Downloads>,
    scope: ContentKey,
    seen: Arc<Generation>,
}

impl BuildDownloads {
    /// The newest downloads of a scope.
    pub(super) async fn of(all: Arc<Downloads>, scope: ContentKey) -> io::Result<Self> {
        let looking = move || {
            let seen = all.of(&scope)?;
            Ok(Self { all, scope, seen })
        };
        blocking(looking).await
    }

    /// The layers that show them, the lowest first.
    pub(super) fn layers(&self) -> impl Iterator<Item = PathBuf> {
        self.seen.layers()
    }

    /// A directory for what is added.
    pub(super) async fn draft(&self) -> io::Result<TempDir> {
        let downloads = self.clone();
        blocking(move || downloads.all.draft(&downloads.scope)).await
    }

    /// The order to copy what is added into a draft.
    pub(super) fn apart(draft: &TempDir) -> Apart {
        Apart {
            name: DOWNLOADS,
            into: draft.path().to_owned(),
            limit: MOST_ADDED,
        }
    }

    /// Keeps what was added. A build does not fail for want of it.
    pub(super) async fn keep(&self, draft: TempDir) {
        let downloads = self.clone();
        let keeping = blocking(move || {
            // It is gone if there was too much.
            if draft.path().exists() {
                downloads.all.add(&downloads.scope, draft.path())?;
            }
            Ok(())
        });
        if let Err(error) = keeping.await {
            tracing::warn!(%error, "downloads of a build are not kept");
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}
