//! The layer that sees spans begin and end.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::{Extensions, LookupSpan};

use super::parent::Parent;
use super::{Active, EXPORTER, Exporter, Kind, Position, Value};

/// Beginning of the names of the modules whose spans are exported.
const TARGETS: &str = "skep";

/// Level of the spans that are exported. Those above it give ids to log lines, and may last as long
/// as a sandbox.
const LEVEL: Level = Level::DEBUG;

/// The layer of a subscriber that exports spans, once [`super::start`] was called.
///
/// It looks at spans that other layers do not want, and keeps them from those.
pub fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    layer_to(&EXPORTER)
}

pub(super) fn layer_to<S>(exporter: &'static OnceLock<Arc<Exporter>>) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    TraceLayer { exporter }.with_filter(OurSpans { exporter })
}

struct TraceLayer {
    exporter: &'static OnceLock<Arc<Exporter>>,
}

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (Some(exporter), Some(span)) = (self.exporter.get(), context.span(id)) else {
            return;
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let position = match fields.kind {
            Kind::Server => exporter.begin(fields.parent),
            Kind::Internal => span
                .parent()
                .and_then(|parent| position(&parent.extensions()))
                .map(Position::below),
        };
        let Some(position) = position else {
            return;
        };
        let name = fields.name.unwrap_or_else(|| span.name().to_owned());
        span.extensions_mut().insert(Active {
            exporter: Arc::clone(exporter),
            position,
            name,
            kind: fields.kind,
            start: SystemTime::now(),
            started: Instant::now(),
            attributes: fields.attributes,
            failed: false,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if let Some(active) = span.extensions_mut().get_mut::<Active>() {
            let mut fields = Fields::default();
            values.record(&mut fields);
            active.attributes.append(&mut fields.attributes);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let active = context
            .span(&id)
            .and_then(|span| span.extensions_mut().remove::<Active>());
        if let Some(active) = active {
            active.end();
        }
    }
}

/// The position of a span that is recorded, also if it has ended already.
fn position(extensions: &Extensions<'_>) -> Option<Position> {
    extensions
        .get::<Active>()
        .map(|active| active.position)
        .or_else(|| extensions.get::<Position>().copied())
}

/// Spans of our crates, as long as anybody wants them.
struct OurSpans {
    exporter: &'static OnceLock<Arc<Exporter>>,
}

impl OurSpans {
    fn includes(&self, metadata: &Metadata<'_>) -> bool {
        self.exporter.get().is_some()
            && metadata.is_span()
            && *metadata.level() == LEVEL
            && metadata.target().starts_with(TARGETS)
    }
}

impl<S> Filter<S> for OurSpans {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.includes(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.includes(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.exporter.get() {
            Some(_) => LevelFilter::from_level(LEVEL),
            None => LevelFilter::OFF,
        })
    }
}

/// Fields of a span, sorted by what they mean.
struct Fields {
    name: Option<String>,
    kind: Kind,
    parent: Option<Parent>,
    attributes: Vec<(&'static str, Value)>,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            name: None,
            kind: Kind::Internal,
            parent: None,
            attributes: Vec::new(),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => self.name = Some(value.to_owned()),
            "otel.kind" if value == "server" => self.kind = Kind::Server,
            "otel.kind" => {}
            "traceparent" => self.parent = Parent::from_header(value),
            name => self.attributes.push((name, Value::Text(value.to_owned()))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push((field.name(), Value::Number(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_too_large) => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
