//! Export of `tracing` spans to a collector, in OpenTelemetry's terms.
//!
//! [`layer`] makes a trace of the ordinary spans of our crates of level debug. One with the field
//! `otel.kind = "server"` begins it, or goes on with that of its caller, whose header is in the field
//! `traceparent`. Spans below it are its children, in whatever task or thread they are entered.
//! `otel.name` replaces the name of a span, and all other fields are attributes; never what users
//! wrote, nor secrets.
//!
//! Until [`start`] nobody wants these spans, and `debug_span!` is a look at a number. Nothing here
//! waits: a span that finds the queue full is dropped and counted.

mod ending;
mod layer;
mod otlp;
mod outbox;
mod parent;

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use tokio::sync::mpsc;

pub use ending::{EndOnDrop, fail, step};
pub use layer::layer;
pub use outbox::Outbox;

use parent::Parent;

/// Limit on ended spans that wait to be sent.
const QUEUE: usize = 8192;

static EXPORTER: OnceLock<Arc<Exporter>> = OnceLock::new();

/// Receiver of ended spans.
#[derive(Debug)]
struct Exporter {
    queue: mpsc::Sender<Ended>,
    /// Traces with a number below this are recorded, of those that nobody has decided about.
    sampled_below: u128,
    metrics: Arc<TraceMetrics>,
}

crate::metrics! {
    /// Metrics of the spans themselves: too many waited to be sent, or the collector was not there or
    /// did not want them.
    pub struct TraceMetrics {
        sent: Counter = "skep_trace_spans_sent_total",
            "Spans that the collector took.";
        overflowed: Counter = "skep_trace_spans_dropped_total{reason=\"queue_full\"}",
            "Spans that were lost, by why.";
        undelivered: Counter = "skep_trace_spans_dropped_total{reason=\"not_delivered\"}",
            "Spans that were lost, by why.";
    }
}

/// Identity of the service, and the sampling of its traces.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The name of this service.
    pub service: String,
    /// Version of the service, as the collector shows it.
    pub version: String,
    /// The part of all traces that is recorded, from 0 to 1. A caller that says whether it
    /// records its own trace has decided for us, too.
    pub sample: f64,
}

/// Records spans from now on, and returns the queue of those that have ended. The first call
/// counts.
pub fn start(options: &TraceOptions) -> Outbox {
    let (exporter, outbox) = Exporter::new(options);
    if EXPORTER.set(Arc::new(exporter)).is_err() {
        tracing::warn!("traces are exported already");
    }
    // What every span found out when it was asked first: that nobody wants it.
    tracing::callsite::rebuild_interest_cache();
    outbox
}

/// Metrics of exported spans; `None` if none are exported.
pub fn metrics() -> Option<&'static TraceMetrics> {
    EXPORTER.get().map(|exporter| exporter.metrics.as_ref())
}

impl Exporter {
    fn new(options: &TraceOptions) -> (Self, Outbox) {
        let (queue, ended) = mpsc::channel(QUEUE);
        let metrics = Arc::new(TraceMetrics::default());
        let exporter = Self {
            queue,
            sampled_below: threshold(options.sample),
            metrics: Arc::clone(&metrics),
        };
        (exporter, Outbox::new(ended, metrics, options))
    }

    /// The position of a request that comes from outside; `None` if it is not recorded.
    fn begin(&self, parent: Option<Parent>) -> Option<Position> {
        if let Some(parent) = parent {
            return parent.sampled.then_some(Position {
                trace: parent.trace,
                id: random_span(),
                parent: Some(parent.span),
            });
        }
        let trace = random_trace();
        (trace < self.sampled_below).then(|| Position {
            trace,
            id: random_span(),
            parent: None,
        })
    }

    fn send(&self, ended: Ended) {
        if self.queue.try_send(ended).is_err() {
            self.metrics.overflowed.add_one();
        }
    }
}

/// The first number that is not below `part` of all numbers.
fn threshold(part: f64) -> u128 {
    if part >= 1.0 {
        return u128::MAX;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and what 53 bits hold, which is as fine as the part is"
    )]
    let steps = (part.max(0.0) * 2_f64.powi(53)) as u128;
    steps << 75
}

/// Position of a span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    trace: u128,
    id: u64,
    parent: Option<u64>,
}

impl Position {
    /// The position of a child.
    fn below(self) -> Self {
        Self {
            trace: self.trace,
            id: random_span(),
            parent: Some(self.id),
        }
    }
}

/// A span that has begun.
#[derive(Debug)]
struct Active {
    exporter: Arc<Exporter>,
    position: Position,
    name: String,
    kind: Kind,
    start: SystemTime,
    /// The same on a clock that nobody sets.
    started: Instant,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

impl Active {
    fn end(self) {
        let ended = Ended {
            position: self.position,
            name: self.name,
            kind: self.kind,
            start: self.start,
            end: self.start + self.started.elapsed(),
            attributes: self.attributes,
            failed: self.failed,
        };
        self.exporter.send(ended);
    }
}

/// Value of a span's attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Number(i64),
}

/// Side of a call that a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Internal,
    Server,
}

/// A span that is over.
#[derive(Debug)]
struct Ended {
    position: Position,
    name: String,
    kind: Kind,
    start: SystemTime,
    end: SystemTime,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

fn random_trace() -> u128 {
    u128::from(random_span()) << 64 | u128::from(random_span())
}

/// Zero is no name for a span.
fn random_span() -> u64 {
    getrandom::u64()
        .expect("the kernel's random source is always there")
        .max(1)
}

#[cfg(test)]
mod tests;
