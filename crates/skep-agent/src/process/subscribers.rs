//! Subscribers to the output of a process.
//!
//! Each subscriber has a bounded queue. A full queue holds the process back, as a full pipe
//! would, so a slow reader loses nothing. It may not hold back the others for ever: a subscriber
//! that has not taken anything for [`STALL_TIMEOUT`] while others wait is let go, and its stream
//! ends with an error instead of a gap. A subscriber that is alone may take its time.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::process::exit_status::Ended;

/// Pieces of at most 32 KiB that wait for one subscriber.
const QUEUE: usize = 16;

/// Longest time that others wait for a subscriber that does not read.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    Terminal(Bytes),
}

#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// Protects the list and the end; never held while waiting.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    list: Vec<Subscriber>,
    next_id: u64,
    ended: Option<Ended>,
}

#[derive(Debug, Clone)]
struct Subscriber {
    id: u64,
    queue: mpsc::Sender<Output>,
}

impl Subscribers {
    /// Listens from now on. The receiver ends with the process, or when it is let go;
    /// [`Subscribers::ended`] tells which.
    pub(super) fn subscribe(&self) -> mpsc::Receiver<Output> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut state = self.state.lock();
        if state.ended.is_none() {
            let id = state.next_id;
            state.next_id += 1;
            state.list.push(Subscriber { id, queue: sender });
        }
        receiver
    }

    /// Returns the exit status of the process, if it has ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.state.lock().ended.clone()
    }

    /// Tells everybody that nothing more will come.
    pub(super) fn end(&self, ended: Ended) {
        let mut state = self.state.lock();
        state.ended = Some(ended);
        state.list.clear();
    }

    /// Passes a piece on to everybody, waiting for those who are behind.
    pub(super) async fn publish(&self, output: Output) {
        // A copy, so that nobody is waited for under the lock; and all who have room get the piece
        // before the others are waited for.
        let list = self.state.lock().list.clone();
        let mut behind = Vec::new();
        for subscriber in list {
            match subscriber.queue.try_send(output.clone()) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => self.remove(subscriber.id),
                Err(TrySendError::Full(_)) => behind.push(subscriber),
            }
        }
        for subscriber in behind {
            self.wait_for(subscriber, &output).await;
        }
    }

    async fn wait_for(&self, subscriber: Subscriber, output: &Output) {
        loop {
            match tokio::time::timeout(STALL_TIMEOUT, subscriber.queue.reserve()).await {
                Ok(Ok(permit)) => return permit.send(output.clone()),
                Ok(Err(_closed)) => return self.remove(subscriber.id),
                Err(_late) if self.state.lock().list.len() > 1 => {
                    return self.remove(subscriber.id);
                }
                Err(_late) => {}
            }
        }
    }

    fn remove(&self, id: u64) {
        self.state
            .lock()
            .list
            .retain(|subscriber| subscriber.id != id);
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
        let subscribers = Subscribers::default();
        let mut stuck = subscribers.subscribe();
        let mut lively = subscribers.subscribe();
        let total = 3 * QUEUE;
        let publish = async {
            for number in 0..total {
                subscribers.publish(piece(number)).await;
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
        assert_eq!((received, subscribers.ended()), (QUEUE, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_listener_may_take_its_time() {
        let subscribers = Subscribers::default();
        let mut slow = subscribers.subscribe();
        let publish = async {
            for number in 0..=QUEUE {
                subscribers.publish(piece(number)).await;
            }
        };
        let read = async {
            tokio::time::sleep(20 * STALL_TIMEOUT).await;
            for number in 0..=QUEUE {
                assert_eq!(slow.recv().await, Some(piece(number)));
            }
        };
        tokio::join!(publish, read);
    }

    #[tokio::test]
    async fn what_nobody_hears_is_discarded() {
        let subscribers = Subscribers::default();
        drop(subscribers.subscribe());
        for number in 0..10 * QUEUE {
            subscribers.publish(piece(number)).await;
        }
        assert!(subscribers.state.lock().list.is_empty());
    }
}
