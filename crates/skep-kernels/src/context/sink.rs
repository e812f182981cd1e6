//! Where the updates of an execution go.

use tokio::sync::mpsc;

use crate::execution::{OnLoss, Update};

/// The way to the caller.
pub(super) struct Sink {
    updates: mpsc::Sender<Update>,
    on_loss: OnLoss,
}

impl Sink {
    pub(super) fn new(updates: mpsc::Sender<Update>, on_loss: OnLoss) -> Self {
        Self { updates, on_loss }
    }

    /// Whether an update can be delivered or dropped without waiting.
    pub(super) fn has_room(&self) -> bool {
        self.updates.is_closed() || self.updates.capacity() > 0
    }

    /// Waits until there is room.
    pub(super) async fn room(&self) {
        // Dropping the permit gives the place back, and we are the only ones who take it. An
        // error means that nobody listens any more, which is room enough.
        drop(self.updates.reserve().await.ok());
    }

    /// Waits until nobody listens, if that means that the code shall be interrupted.
    pub(super) async fn abandoned(&self) {
        match self.on_loss {
            OnLoss::Interrupt => self.updates.closed().await,
            OnLoss::Continue => std::future::pending().await,
        }
    }

    /// Delivers an update, or drops it if nobody listens. There must be room.
    pub(super) fn deliver(&self, update: Update) {
        if let Err(error) = self.updates.try_send(update) {
            tracing::trace!(%error, "nobody hears an update");
        }
    }

    /// Delivers the last updates, waiting for room.
    pub(super) async fn deliver_last(&self, update: Update) {
        if let Err(error) = self.updates.send(update).await {
            tracing::trace!(%error, "nobody hears the end");
        }
    }
}
