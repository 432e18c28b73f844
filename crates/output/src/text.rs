//! Records as text in layers, a file for each protocol: a line of addresses, of transport, of the record.

use crate::csv::records::text;
use crate::figures::push_escaped;
use crate::file::{Frame, LineFile};
use crate::format::{push_address, push_number, push_uid};
use crate::records::Files;
use crate::zone::push_rfc3339;
use crate::{Output, OutputSpec, Takes, ports};
use std::io;
use weir_api::Snapshot;
use weir_engine::FlowIdentity;
use weir_proto::{Field, Kind, Record, Value, lossless};

pub(crate) static TEXT: OutputSpec = OutputSpec {
    name: "text",
    help: "Records as text for people: a file for each protocol, with addresses, transport and record on separate lines.",
    files: &[],
    is_stream: false,
    flows: false,
    events: "",
    has: |_| true,
    shows: |_| true,
    takes: Takes::Known,
    open: |context| Ok(Box::new(Texts { files: Files::new(context) })),
};

struct Texts {
    files: Files,
}

impl Output for Texts {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.files.flush()
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let Some(file) = self.files.of(record.table.name, |name| format!("{name}.txt"), Frame::default)
        else {
            return Ok(());
        };
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        file.line(record.time.0, |out| {
            push_rfc3339(out, record.time.0);
            out.push(b' ');
            push_address(out, source);
            out.extend_from_slice(b" > ");
            push_address(out, destination);
            out.extend_from_slice(b"\n  ");
            out.extend_from_slice(ports::protocol(flow.key.proto).as_bytes());
            out.push(b' ');
            push_number(out, source_port.into());
            out.extend_from_slice(b" > ");
            push_number(out, destination_port.into());
            out.extend_from_slice(b"  ");
            push_uid(out, flow.id());
            out.extend_from_slice(b"\n  ");
            out.extend_from_slice(record.table.name.as_bytes());
            for (field, value) in record.table.fields.iter().zip(&record.values) {
                write_field(out, field, value, 0);
            }
        });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.files.flush()
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.files.roll(now)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.files.each(LineFile::finish)
    }
}

/// Writes `name=value`; rows of a field on further lines, indented.
fn write_field(out: &mut Vec<u8>, field: &Field, value: &Value<'_>, depth: usize) {
    match (value, &field.kind) {
        (Value::None, _) => {}
        (Value::Rows(rows), Kind::Rows(fields)) => {
            for row in rows {
                out.push(b'\n');
                out.extend(std::iter::repeat_n(b' ', 4 + 2 * depth));
                out.extend_from_slice(field.name.as_bytes());
                for (field, value) in fields.iter().zip(row) {
                    write_field(out, field, value, depth + 1);
                }
            }
        }
        (value, _) => {
            out.push(b' ');
            out.extend_from_slice(field.name.as_bytes());
            out.push(b'=');
            if let Value::Uint(number) = value {
                return push_number(out, *number);
            }
            let text = text(value);
            let is_plain = !text.is_empty() && text.chars().all(|c| !c.is_control() && !" \"=\\".contains(c));
            if is_plain {
                out.extend_from_slice(text.as_bytes());
            } else {
                // Quoted text has neither line ends nor terminal codes.
                let mut quoted = String::with_capacity(text.len() + 2);
                quoted.push('"');
                for c in lossless(text.as_bytes()).chars() {
                    match c {
                        '"' | '\\' => quoted.extend(['\\', c]),
                        c if c.is_control() => push_escaped(&mut quoted, c),
                        c => quoted.push(c),
                    }
                }
                quoted.push('"');
                out.extend_from_slice(quoted.as_bytes());
            }
        }
    }
}
