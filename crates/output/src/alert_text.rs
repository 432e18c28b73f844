//! Logs of alerts as text, each in a form of its own.

use crate::file::{Frame, LineFile};
use crate::zone::Zone;
use crate::{Output, OutputContext};
use std::io;
use weir_api::Snapshot;
use weir_engine::FlowIdentity;
use weir_proto::{ALERT, Record};

/// Writes an alert without the end of its last line.
type Form = fn(&mut Vec<u8>, &FlowIdentity, &Record<'_>, &Zone);

struct AlertText {
    file: LineFile,
    zone: Zone,
    form: Form,
}

/// Opens a log of alerts.
pub fn open(context: &OutputContext, name: &str, form: Form) -> io::Result<Box<dyn Output>> {
    let file = LineFile::framed(context, name, Frame::default())?;
    Ok(Box::new(AlertText { file, zone: context.zone.clone(), form }))
}

impl Output for AlertText {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.file.flush()
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let Self { file, zone, form } = self;
        if *record.table == ALERT {
            file.line(record.time.0, |out| form(out, flow, record, zone));
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.file.roll(now)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }
}
