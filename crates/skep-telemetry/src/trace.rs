//! Spans for whoever wants to see where the time of a request went, in OpenTelemetry's terms.
//!
//! Off unless a [`Tracer`] is [installed](install), and then a span is a look at an empty cell.
//! What is current travels with the task, and through [`crate::spawn`] to its children, as three
//! numbers: a span ends when its value is dropped, however long a task lives that began in it.
//! Nothing here waits: a span that finds the queue full is dropped and counted.

mod otlp;
mod outbox;
mod parent;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::Either;
use tokio::sync::mpsc;

pub use outbox::Outbox;

use crate::{Counter, Exposition};
use parent::Parent;

/// Limit on ended spans that wait to be sent.
const QUEUE: usize = 8192;

static INSTALLED: OnceLock<Tracer> = OnceLock::new();

tokio::task_local! {
    static CURRENT: Context;
}

/// The span that new ones are children of.
#[derive(Debug, Clone)]
struct Context {
    tracer: Tracer,
    trace: u128,
    span: u64,
}

/// Receiver of spans. Clones are the same.
#[derive(Debug, Clone)]
pub struct Tracer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: mpsc::Sender<Ended>,
    /// Traces with a number below this are recorded, of those that nobody has decided about.
    sampled_below: u128,
    metrics: Arc<TraceMetrics>,
}

/// Metrics of the spans themselves.
#[derive(Debug, Default)]
pub struct TraceMetrics {
    /// The collector took them.
    pub sent: Counter,
    /// Too many waited to be sent.
    pub overflowed: Counter,
    /// The collector was not there, or did not want them.
    pub undelivered: Counter,
}

impl TraceMetrics {
    /// Writes the metrics of spans.
    pub fn expose(&self, text: &mut Exposition) {
        text.counter(
            "skep_trace_spans_sent_total",
            "Spans that the collector took.",
            self.sent.get(),
        );
        text.counters(
            "skep_trace_spans_dropped_total",
            "Spans that were lost, by why.",
            "reason",
            [
                ("queue_full", self.overflowed.get()),
                ("not_delivered", self.undelivered.get()),
            ],
        );
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

/// Makes what takes spans, and what sends them. The latter does nothing until it is run.
pub fn tracer(options: TraceOptions) -> (Tracer, Outbox) {
    let (queue, ended) = mpsc::channel(QUEUE);
    let metrics = Arc::new(TraceMetrics::default());
    let tracer = Tracer {
        inner: Arc::new(Inner {
            queue,
            sampled_below: threshold(options.sample),
            metrics: Arc::clone(&metrics),
        }),
    };
    (tracer, Outbox::new(ended, metrics, &options))
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

/// Makes `tracer` the one that [`request`] uses. The first call counts.
pub fn install(tracer: Tracer) {
    if INSTALLED.set(tracer).is_err() {
        tracing::warn!("traces have a destination already");
    }
}

/// Metrics of the installed tracer's spans; `None` if there is none.
pub fn metrics() -> Option<&'static TraceMetrics> {
    INSTALLED.get().map(|tracer| tracer.inner.metrics.as_ref())
}

/// The span of a request from outside, in the trace that its caller is in, as the header
/// `traceparent` says. The name is made only if somebody wants it.
pub fn request(name: impl FnOnce() -> String, traceparent: Option<&str>) -> Span {
    match INSTALLED.get() {
        Some(tracer) => tracer.request(name(), traceparent.and_then(Parent::from_header)),
        None => Span(None),
    }
}

/// A part of whatever is current; nothing if nothing is.
pub fn child(name: &'static str) -> Span {
    let started = Instant::now();
    let start = SystemTime::now();
    let begun = CURRENT.try_with(|current| current.child(name, start, started));
    Span(begun.ok().map(Box::new))
}

/// Runs a part of whatever is current, which fails if its work does.
pub async fn step<T, E>(
    name: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut span = child(name);
    let result = span.within(work).await;
    if result.is_err() {
        span.fail();
    }
    result
}

/// A part of whatever is current that is over already.
pub fn completed(name: &'static str, began: Instant, took: Duration) {
    let start = SystemTime::now() - began.elapsed();
    let context = CURRENT.try_with(Clone::clone);
    if let Ok(context) = context {
        let active = context.child(name, start, began);
        context.tracer.send(active.end(start + took));
    }
}

/// The future as a part of what is current now, wherever it runs.
pub(crate) fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> {
    match CURRENT.try_with(Clone::clone) {
        Ok(context) => Either::Left(CURRENT.scope(context, future)),
        Err(_nothing) => Either::Right(future),
    }
}

impl Tracer {
    fn request(&self, name: impl Into<String>, parent: Option<Parent>) -> Span {
        let (trace, parent) = match parent {
            Some(parent) if !parent.sampled => return Span(None),
            Some(parent) => (parent.trace, Some(parent.span)),
            None => {
                let trace = random_trace();
                if trace >= self.inner.sampled_below {
                    return Span(None);
                }
                (trace, None)
            }
        };
        Span(Some(Box::new(Active {
            tracer: self.clone(),
            trace,
            id: random_span(),
            parent,
            name: name.into(),
            kind: Kind::Server,
            start: SystemTime::now(),
            started: Instant::now(),
            attributes: Vec::new(),
            failed: false,
        })))
    }

    fn send(&self, ended: Ended) {
        if self.inner.queue.try_send(ended).is_err() {
            self.inner.metrics.overflowed.add_one();
        }
    }
}

impl Context {
    fn child(&self, name: &'static str, start: SystemTime, started: Instant) -> Active {
        Active {
            tracer: self.tracer.clone(),
            trace: self.trace,
            id: random_span(),
            parent: Some(self.span),
            name: name.to_owned(),
            kind: Kind::Internal,
            start,
            started,
            attributes: Vec::new(),
            failed: false,
        }
    }
}

/// Something that takes time. It ends when it is dropped.
pub struct Span(Option<Box<Active>>);

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.as_ref().map(|active| active.name.as_str());
        formatter.debug_tuple("Span").field(&name).finish()
    }
}

impl Span {
    /// Notes something about it. Never what users wrote, nor secrets.
    pub fn note(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(active) = &mut self.0 {
            active.attributes.push((key, value.into()));
        }
    }

    /// Notes what would cost something to put into words.
    pub fn note_text(&mut self, key: &'static str, value: impl fmt::Display) {
        if self.0.is_some() {
            self.note(key, value.to_string());
        }
    }

    /// Notes that it did not go well.
    pub fn fail(&mut self) {
        if let Some(active) = &mut self.0 {
            active.failed = true;
        }
    }

    /// The future, with this span as the current one.
    pub fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        match &self.0 {
            Some(active) => Either::Left(CURRENT.scope(active.context(), future)),
            None => Either::Right(future),
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(active) = self.0.take() {
            let end = active.start + active.started.elapsed();
            let tracer = active.tracer.clone();
            tracer.send(active.end(end));
        }
    }
}

/// Value of a span's attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string attribute.
    Text(String),
    /// An integer attribute.
    Number(i64),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

#[derive(Debug)]
struct Active {
    tracer: Tracer,
    trace: u128,
    id: u64,
    parent: Option<u64>,
    name: String,
    kind: Kind,
    start: SystemTime,
    /// The same on a clock that nobody sets.
    started: Instant,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

impl Active {
    fn context(&self) -> Context {
        Context {
            tracer: self.tracer.clone(),
            trace: self.trace,
            span: self.id,
        }
    }

    fn end(self, end: SystemTime) -> Ended {
        Ended {
            trace: self.trace,
            id: self.id,
            parent: self.parent,
            name: self.name,
            kind: self.kind,
            start: self.start,
            end,
            attributes: self.attributes,
            failed: self.failed,
        }
    }
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
    trace: u128,
    id: u64,
    parent: Option<u64>,
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
