//! The desk at which requests are judged by the server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::meter::Meter;
use crate::channel::Channel;
use crate::message::{Connection, Ended, FromSender, Pace, Refusal};

/// Ended requests that wait to be told. Beyond that the oldest are forgotten.
const MOST_UNTOLD: usize = 1024;
/// Rules whose bytes are counted. A policy has ten.
const MOST_METERS: usize = 64;

/// Headers of a request that may be sent, and the limits on its bytes.
pub(super) type Verdict = Result<(Vec<(String, String)>, Option<Pace>), Refusal>;

/// The desk at which requests are judged by the server.
#[derive(Debug)]
pub(super) struct Desk {
    channel: Channel,
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Verdict>>>,
    /// One for each rule, so that all its connections share it.
    meters: Mutex<HashMap<String, Arc<Meter>>>,
    untold: Mutex<Untold>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Untold {
    /// One for each request and connection, of which there are no more than connections.
    urgent: VecDeque<FromSender>,
    ended: VecDeque<Ended>,
}

impl Desk {
    pub(super) fn new(channel: Channel) -> Arc<Self> {
        Arc::new(Self {
            channel,
            last: AtomicU64::new(0),
            waiting: Mutex::default(),
            meters: Mutex::default(),
            untold: Mutex::default(),
            told: Notify::new(),
        })
    }

    pub(super) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Asks whether a request may be sent. The server answers in time, or ends this process.
    pub(super) async fn judge(&self, route: Connection, method: &str, path: &str) -> Verdict {
        let request = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(request, sender);
        let _waiting = Waiting(self, request);
        self.say(FromSender::Judge {
            route,
            request,
            method: method.to_owned(),
            path: path.to_owned(),
        });
        answer.await.unwrap_or(Err(Refusal::NotUnderstood))
    }

    pub(super) fn answer(&self, request: u64, verdict: Verdict) {
        if let Some(waiting) = self.waiting.lock().remove(&request) {
            // Whoever asked has gone.
            drop(waiting.send(verdict));
        }
    }

    /// The count of a rule's bytes, under these limits from now on.
    pub(super) fn meter(&self, pace: Pace) -> Arc<Meter> {
        let mut meters = self.meters.lock();
        if meters.len() >= MOST_METERS {
            // Those that connections have live on; the server knows what was spent.
            meters.clear();
        }
        let meter = meters.entry(pace.rule.clone()).or_default();
        meter.set(&pace);
        Arc::clone(meter)
    }

    pub(super) fn done(&self, route: Connection) {
        self.say(FromSender::Done { route });
    }

    pub(super) fn spent(&self, rule: String, bytes: u64) {
        self.say(FromSender::Spent { rule, bytes });
    }

    /// Tells the server of a request that has ended, in a message of bounded size.
    pub(super) fn note(&self, ended: Ended) {
        let mut untold = self.untold.lock();
        if untold.ended.len() >= MOST_UNTOLD {
            untold.ended.pop_front();
        }
        untold.ended.push_back(ended.shortened());
        drop(untold);
        self.told.notify_one();
    }

    fn say(&self, message: FromSender) {
        self.untold.lock().urgent.push_back(message);
        self.told.notify_one();
    }

    /// Tells the server what there is to tell, until it is gone.
    pub(super) async fn tell(&self) -> io::Result<()> {
        loop {
            while let Some(message) = self.next() {
                if self.channel.send(&message, &[]).await.is_ok() {
                    continue;
                }
                match message {
                    // Its path is longer than any message.
                    FromSender::Judge { request, .. } => {
                        self.answer(request, Err(Refusal::NotUnderstood));
                    }
                    FromSender::Done { .. } | FromSender::Spent { .. } | FromSender::Ended(_) => {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                }
            }
            self.told.notified().await;
        }
    }

    fn next(&self) -> Option<FromSender> {
        let mut untold = self.untold.lock();
        let urgent = untold.urgent.pop_front();
        urgent.or_else(|| untold.ended.pop_front().map(FromSender::Ended))
    }
}

/// A request that waits for its answer.
struct Waiting<'a>(&'a Desk, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().remove(&self.1);
    }
}
