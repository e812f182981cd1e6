//! Subscribers to the output of a process.
//!
//! Each listener has a bounded queue. A full queue holds the process back, as a full pipe
//! would, so a slow reader loses nothing. It may not hold back the others for ever: a listener
//! that has not taken anything for [`PATIENCE`] while others wait is let go, and its stream
//! ends with an error instead of a gap. A listener that is alone may take its time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::exit_status::Ended;

/// Pieces of at most 32 KiB that wait for one listener.
const QUEUE: usize = 16;

/// Longest time that others wait for a listener that does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    Terminal(Bytes),
}

#[derive(Debug, Default)]
pub(super) struct Audience {
    /// Protects the list and the end; never held while waiting.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    listeners: Vec<Listener>,
    next_id: u64,
    ended: Option<Ended>,
}

#[derive(Debug, Clone)]
struct Listener {
    id: u64,
    queue: mpsc::Sender<Output>,
}

impl Audience {
    /// Listens from now on. The receiver ends with the process, or when it is let go;
    /// [`Audience::ended`] tells which.
    pub(super) fn join(&self) -> mpsc::Receiver<Output> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut state = self.lock();
        if state.ended.is_none() {
            let id = state.next_id;
            state.next_id += 1;
            state.listeners.push(Listener { id, queue: sender });
        }
        receiver
    }

    /// Returns the exit status of the process, if it has ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.lock().ended.clone()
    }

    /// Tells everybody that nothing more will come.
    pub(super) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended = Some(ended);
        state.listeners.clear();
    }

    /// Passes a piece on to everybody, waiting for those who are behind.
    pub(super) async fn publish(&self, output: Output) {
        // A copy, so that nobody is waited for under the lock; and all who have room get the piece
        // before the others are waited for.
        let listeners = self.lock().listeners.clone();
        let mut behind = Vec::new();
        for listener in listeners {
            match listener.queue.try_send(output.clone()) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => self.remove(listener.id),
                Err(TrySendError::Full(_)) => behind.push(listener),
            }
        }
        for listener in behind {
            self.wait_for(listener, &output).await;
        }
    }

    async fn wait_for(&self, listener: Listener, output: &Output) {
        loop {
            match tokio::time::timeout(PATIENCE, listener.queue.reserve()).await {
                Ok(Ok(place)) => return place.send(output.clone()),
                Ok(Err(_closed)) => return self.remove(listener.id),
                Err(_late) if self.lock().listeners.len() > 1 => return self.remove(listener.id),
                Err(_late) => {}
            }
        }
    }

    fn remove(&self, id: u64) {
        self.lock().listeners.retain(|listener| listener.id != id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(number: usize) -> Output {
        Output::Stdout(Bytes::from(number.to_string()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_never_reads_is_let_go_and_the_others_miss_nothing() {
        let audience = Audience::default();
        let mut stuck = audience.join();
        let mut lively = audience.join();
        let total = 3 * QUEUE;
        let publish = async {
            for number in 0..total {
                audience.publish(piece(number)).await;
            }
        };
        let read = async {
            for number in 0..total {
                assert_eq!(lively.recv().await, Some(piece(number)));
            }
        };
        tokio::join!(publish, read);
        let mut received = 0;
        while stuck.recv().await.is_some() {
            received += 1;
        }
        assert_eq!((received, audience.ended()), (QUEUE, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_listener_may_take_its_time() {
        let audience = Audience::default();
        let mut slow = audience.join();
        let publish = async {
            for number in 0..=QUEUE {
                audience.publish(piece(number)).await;
            }
        };
        let read = async {
            tokio::time::sleep(20 * PATIENCE).await;
            for number in 0..=QUEUE {
                assert_eq!(slow.recv().await, Some(piece(number)));
            }
        };
        tokio::join!(publish, read);
    }

    #[tokio::test]
    async fn what_nobody_hears_is_discarded() {
        let audience = Audience::default();
        drop(audience.join());
        for number in 0..10 * QUEUE {
            audience.publish(piece(number)).await;
        }
        assert!(audience.lock().listeners.is_empty());
    }
}
