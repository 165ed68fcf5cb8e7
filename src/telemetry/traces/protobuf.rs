//! Spans as `ExportTraceServiceRequest` of OTLP, in protobuf.
//!
//! The numbers of fields are those of `opentelemetry/proto` 1.x, which never
//! changes them.

use super::queue::Ended;
use super::span::Attribute;

/// What the spans are said to be made by.
const SCOPE: &str = "clawgate";
/// `STATUS_CODE_ERROR`.
const FAILED: u64 = 2;

/// A request that tells of these spans, made by the service of this name.
pub fn encode(service: &str, version: &str, spans: &[Box<Ended>]) -> Vec<u8> {
    message(|request| {
        request.field(1, |of_resource| {
            of_resource.field(1, |resource| {
                resource.field(1, |it| attribute(it, "service.name", &service.into()));
                resource.field(1, |it| attribute(it, "service.version", &version.into()));
            });
            of_resource.field(2, |of_scope| {
                of_scope.field(1, |scope| {
                    scope.bytes(1, SCOPE.as_bytes());
                    scope.bytes(2, version.as_bytes());
                });
                for it in spans {
                    of_scope.field(2, |out| span(out, it));
                }
            });
        });
    })
}

fn span(out: &mut Message, ended: &Ended) {
    out.bytes(1, &ended.context.trace_id.to_be_bytes());
    out.bytes(2, &ended.context.span_id.to_be_bytes());
    if let Some(parent) = ended.parent {
        out.bytes(4, &parent.to_be_bytes());
    }
    out.bytes(5, ended.name.as_bytes());
    out.number(6, ended.kind as u64);
    out.fixed(7, ended.began_ns);
    out.fixed(8, ended.ended_ns);
    for (name, value) in &ended.attributes {
        out.field(9, |it| attribute(it, name, value));
    }
    if ended.has_failed {
        out.field(15, |status| status.number(3, FAILED));
    }
}

fn attribute(out: &mut Message, name: &str, value: &Attribute) {
    out.bytes(1, name.as_bytes());
    out.field(2, |any| match value {
        Attribute::Text(text) => any.bytes(1, text.as_bytes()),
        Attribute::Number(number) => any.number(3, *number),
    });
}

/// A message of protobuf that is being written.
struct Message(Vec<u8>);

fn message(write: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message(Vec::new());
    write(&mut message);
    message.0
}

/// The seven lowest bits.
fn lowest(number: u64) -> u8 {
    u8::try_from(number & 0x7f).unwrap_or(0)
}

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(lowest(number) | 0x80);
            number >>= 7;
        }
        self.0.push(lowest(number));
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | 1);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.0.extend(bytes);
    }

    fn field(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        self.bytes(field, &message(write));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::traces::{Kind, SpanContext};

    #[test]
    fn numbers_are_written_as_protobuf_wants_them() {
        let of = |number| message(|out| out.number(3, number));
        assert_eq!(of(0), [0x18, 0]);
        assert_eq!(of(127), [0x18, 0x7f]);
        assert_eq!(of(300), [0x18, 0xac, 0x02]);
        assert_eq!(of(u64::MAX).len(), 11);
    }

    /// What readers make of it: `tests/scenario/traces.rs`.
    #[test]
    fn a_span_has_its_fields() {
        let ended = Ended {
            name: "n".into(),
            kind: Kind::Client,
            context: SpanContext { trace_id: 1, span_id: 2, is_sampled: true },
            parent: Some(3),
            began_ns: 4,
            ended_ns: 5,
            attributes: vec![("a", 6.into())],
            has_failed: true,
        };
        let mut wanted = vec![0x0a, 16];
        wanted.extend(1_u128.to_be_bytes());
        wanted.extend([0x12, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0x22, 8, 0, 0, 0, 0, 0, 0, 0, 3]);
        wanted.extend([0x2a, 1, b'n', 0x30, 3, 0x39, 4, 0, 0, 0, 0, 0, 0, 0]);
        wanted.extend([0x41, 5, 0, 0, 0, 0, 0, 0, 0]);
        wanted.extend([0x4a, 7, 0x0a, 1, b'a', 0x12, 2, 0x18, 6, 0x7a, 2, 0x18, 2]);
        assert_eq!(message(|out| span(out, &ended)), wanted);
    }
}
