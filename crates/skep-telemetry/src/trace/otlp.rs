//! Spans as OpenTelemetry's collectors read them: `ExportTraceServiceRequest` in protobuf.
//!
//! Written by hand, because it is seven messages that only ever gain fields. The numbers are
//! those of `opentelemetry/proto/trace/v1/trace.proto` and what it uses. The test of the whole
//! server reads them with OpenTelemetry's own reader.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Ended, Kind, Value};

const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
const LENGTH: u32 = 2;
const FOUR_BYTES: u32 = 5;

/// The status of a span that did not go well.
const ERROR: u64 = 2;
/// The trace is recorded.
const SAMPLED: u32 = 1;

/// All of `spans`, told by the service with these attributes.
pub(super) fn request(resource: &[(&'static str, Value)], spans: &[Ended]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |of_resource| {
        of_resource.message(1, |described| described.attributes(1, resource));
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| scope.text(1, "skep"));
            for span in spans {
                of_scope.message(2, |message| message.span(span));
            }
        });
    });
    request.bytes
}

/// A message that is being written.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn span(&mut self, span: &Ended) {
        self.field(1, &span.position.trace.to_be_bytes());
        self.field(2, &span.position.id.to_be_bytes());
        if let Some(parent) = span.position.parent {
            self.field(4, &parent.to_be_bytes());
        }
        self.text(5, &span.name);
        let kind = match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
        };
        self.number(6, kind);
        self.time(7, span.start);
        self.time(8, span.end);
        self.attributes(9, &span.attributes);
        if span.failed {
            self.message(15, |status| status.number(3, ERROR));
        }
        self.tag(16, FOUR_BYTES);
        self.bytes.extend(SAMPLED.to_le_bytes());
    }

    fn attributes(&mut self, field: u32, attributes: &[(&'static str, Value)]) {
        for (key, value) in attributes {
            self.message(field, |attribute| {
                attribute.text(1, key);
                attribute.message(2, |any| match value {
                    Value::Text(text) => any.text(1, text),
                    Value::Number(number) => any.number(3, number.cast_unsigned()),
                });
            });
        }
    }

    /// A message within this one.
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.field(field, &inner.bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.field(field, text.as_bytes());
    }

    fn field(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.bytes.extend_from_slice(bytes);
    }

    fn number(&mut self, field: u32, number: u64) {
        self.tag(field, VARINT);
        self.varint(number);
    }

    /// Writes a time in nanoseconds since 1970.
    fn time(&mut self, field: u32, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.tag(field, EIGHT_BYTES);
        self.bytes.extend(nanos.to_le_bytes());
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    /// Seven bits at a time, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.bytes.push(number.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        for (number, bytes) in [
            (0_u64, &[0_u8][..]),
            (127, &[127]),
            (300, &[0xac, 0x02]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut message = Message::default();
            message.varint(number);
            assert_eq!(message.bytes, bytes, "{number}");
        }
    }
}
