//! Delivery of the updates of an execution: to its caller, or into a record when the connection to
//! the caller is broken and the code runs on.

use tokio::sync::mpsc;

use crate::execution::{Execution, OnLoss, UPDATES, Update};

/// Limit, in bytes, for the kept output of an execution whose caller cannot be reached. A caller
/// that comes back is told how much more there was.
const LARGEST_RECORD: usize = 1 << 20;

/// The way to the caller.
pub(super) struct Sink {
    id: String,
    updates: mpsc::Sender<Update>,
    on_loss: OnLoss,
    record: Record,
}

impl Sink {
    pub(super) fn new(id: String, updates: mpsc::Sender<Update>, on_loss: OnLoss) -> Self {
        Self {
            id,
            updates,
            on_loss,
            record: Record::default(),
        }
    }

    /// Returns true if an update can be delivered or kept without waiting.
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

    /// Delivers an update. There must be room.
    pub(super) fn deliver(&mut self, update: Update) {
        match self.updates.try_send(update) {
            Ok(()) => {}
            Err(
                mpsc::error::TrySendError::Full(update) | mpsc::error::TrySendError::Closed(update),
            ) => {
                self.keep(update);
            }
        }
    }

    /// Delivers one of the last updates, waiting for room.
    pub(super) async fn deliver_last(&mut self, update: Update) {
        if let Err(mpsc::error::SendError(update)) = self.updates.send(update).await {
            self.keep(update);
        }
    }

    fn keep(&mut self, update: Update) {
        match self.on_loss {
            OnLoss::Continue => self.record.push(update),
            OnLoss::Interrupt => {}
        }
    }

    /// Returns true if this is the execution `id`.
    pub(super) fn is_of(&self, id: &str) -> bool {
        self.id == id
    }

    /// Returns true if this is the execution `id` and its caller was lost.
    pub(super) fn is_lost(&self, id: &str) -> bool {
        self.is_of(id) && self.on_loss == OnLoss::Continue && self.updates.is_closed()
    }

    /// Delivers to a new caller from now on, and first what was kept.
    pub(super) fn attach(&mut self) -> Execution {
        let record = std::mem::take(&mut self.record);
        let (sender, execution) = record.replay(&self.id);
        self.updates = sender;
        execution
    }

    /// The record, if there is anything in it, under the name of its execution.
    pub(super) fn into_record(self) -> Option<(String, Record)> {
        (!self.record.updates.is_empty()).then_some((self.id, self.record))
    }
}

/// Updates of an execution since its caller was lost.
#[derive(Debug, Default)]
pub(super) struct Record {
    updates: Vec<Update>,
    bytes: usize,
    lost: u64,
}

impl Record {
    fn push(&mut self, update: Update) {
        let bytes = weight(&update);
        if self.bytes + bytes > LARGEST_RECORD {
            self.lost = self.lost.saturating_add(bytes as u64);
            return;
        }
        self.bytes += bytes;
        self.updates.push(update);
    }

    /// An execution that begins with what is in this record.
    pub(super) fn replay(mut self, id: &str) -> (mpsc::Sender<Update>, Execution) {
        let (sender, updates) = mpsc::channel(self.updates.len() + 1 + UPDATES);
        if self.lost > 0 {
            let is_last = |update: &Update| matches!(update, Update::Failed(_) | Update::Ended(_));
            let end = self.updates.iter().position(is_last);
            let place = end.unwrap_or(self.updates.len());
            self.updates
                .insert(place, Update::OutputLost { bytes: self.lost });
        }
        for update in self.updates {
            if let Err(error) = sender.try_send(update) {
                tracing::error!(%error, "replay of an execution is cut short");
            }
        }
        let id = id.to_owned();
        (sender, Execution { id, updates })
    }
}

/// Returns the size of the part of an update that grows with the output of the code.
fn weight(update: &Update) -> usize {
    match update {
        Update::Output { output, .. } => output.weight(),
        Update::StateLost(_) | Update::OutputLost { .. } | Update::Failed(_) | Update::Ended(_) => {
            0
        }
    }
}
