//! Ended spans on their way to the collector.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Ended, TraceMetrics, TraceOptions, Value, otlp};
use crate::Chain;

/// Number of spans sent in one batch.
const BATCH: usize = 512;
/// Time that the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// Time limit for the last spans of a server that stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Collects ended spans and has them sent.
#[derive(Debug)]
pub struct Outbox {
    ended: mpsc::Receiver<Ended>,
    metrics: Arc<TraceMetrics>,
    resource: [(&'static str, Value); 2],
    /// True if the last batch was not taken, so that a collector that is away is told of once.
    is_failing: bool,
}

impl Outbox {
    pub(super) fn new(
        ended: mpsc::Receiver<Ended>,
        metrics: Arc<TraceMetrics>,
        options: &TraceOptions,
    ) -> Self {
        Self {
            ended,
            metrics,
            resource: [
                ("service.name", Value::Text(options.service.clone())),
                ("service.version", Value::Text(options.version.clone())),
            ],
            is_failing: false,
        }
    }

    /// Sends batches with `deliver`, one at a time, until `stop` fires; then the last one.
    ///
    /// A batch that is not taken is lost, and counted. While `deliver` waits, spans gather in
    /// the queue, and those beyond it are lost: nothing else ever waits for the collector. So
    /// `deliver` needs a deadline of its own.
    pub async fn run<D, F, E>(mut self, stop: CancellationToken, deliver: D)
    where
        D: Fn(Vec<u8>) -> F,
        F: Future<Output = Result<(), E>>,
        E: std::error::Error,
    {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                received = self.ended.recv_many(&mut batch, BATCH) => if received == 0 {
                    return;
                },
            }
            let full = self.fill(&mut batch);
            tokio::select! {
                () = full => {}
                () = tokio::time::sleep(LINGER) => {}
                () = stop.cancelled() => {}
            }
            self.send(&batch, &deliver).await;
        }
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && let Ok(span) = self.ended.try_recv()
        {
            batch.push(span);
        }
        if !batch.is_empty() {
            let last = self.send(&batch, &deliver);
            if tokio::time::timeout(SHUTDOWN_TIMEOUT, last).await.is_err() {
                tracing::warn!(
                    spans = batch.len(),
                    "trace export timed out at shutdown, spans dropped"
                );
            }
        }
    }

    /// Adds to a batch until it is full. What was added stays if this is dropped.
    async fn fill(&mut self, batch: &mut Vec<Ended>) {
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            if self.ended.recv_many(batch, room).await == 0 {
                return;
            }
        }
    }

    async fn send<D, F, E>(&mut self, batch: &[Ended], deliver: &D)
    where
        D: Fn(Vec<u8>) -> F,
        F: Future<Output = Result<(), E>>,
        E: std::error::Error,
    {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        match deliver(otlp::request(&self.resource, batch)).await {
            Ok(()) => {
                self.metrics.sent.add(count);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("trace export works again");
                }
            }
            Err(error) => {
                self.metrics.undelivered.add(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(error = %Chain(&error), "trace export failed");
                }
            }
        }
    }
}
