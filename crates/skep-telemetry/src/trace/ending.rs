//! Ends of spans.
//!
//! A span of `tracing` is closed when nobody holds it, and a task that is started in one holds it, so
//! that its log lines have the ids. Some of ours live as long as a sandbox or a kept connection. So
//! what is done in a span says when it is done.

use std::future::Future;

use tracing::{Instrument as _, Span};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::{ExtensionsMut, LookupSpan as _};

use super::Active;

/// Ends a span for the collector when it is dropped, whoever holds the span itself.
#[derive(Debug)]
pub struct EndOnDrop(pub Span);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        change(&self.0, |mut extensions| {
            if let Some(active) = extensions.remove::<Active>() {
                // For children that begin later.
                extensions.insert(active.position);
                active.end();
            }
        });
    }
}

/// Marks a span as failed.
pub fn fail(span: &Span) {
    change(span, |mut extensions| {
        if let Some(active) = extensions.get_mut::<Active>() {
            active.failed = true;
        }
    });
}

/// Does `work` in `span`, which ends with it and fails if it does.
///
/// # Errors
///
/// Those of `work`.
pub async fn step<T, E>(span: Span, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let ending = EndOnDrop(span);
    let result = work.instrument(ending.0.clone()).await;
    if result.is_err() {
        fail(&ending.0);
    }
    result
}

fn change(span: &Span, change: impl FnOnce(ExtensionsMut<'_>)) {
    span.with_subscriber(|(id, dispatch)| {
        let span = dispatch
            .downcast_ref::<Registry>()
            .and_then(|registry| registry.span(id));
        if let Some(span) = span {
            change(span.extensions_mut());
        }
    });
}
