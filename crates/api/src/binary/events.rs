//! The binary form of events.

use super::{Binary, Bytes, DecodeError};
use crate::event::{MAX_EVIDENCE, Origin, Severity};
use crate::{Event, EventCount, EventKind, EventState, Evidence, Subject};
use std::sync::Arc;

impl Binary for &'static EventKind {
    fn write(&self, to: &mut Vec<u8>) {
        self.name.to_owned().write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        EventKind::find(&String::read(from)?).ok_or(DecodeError::Invalid("kind of event"))
    }
}

impl Binary for Subject {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Subject::Sensor => to.push(0),
            Subject::Interface(name) => {
                to.push(1);
                name.to_string().write(to);
            }
            Subject::Output(name) => {
                to.push(2);
                name.to_string().write(to);
            }
            Subject::Host(host) => {
                to.push(3);
                host.write(to);
            }
            Subject::Pair { source, target } => {
                to.push(4);
                source.write(to);
                target.write(to);
            }
            Subject::Port { source, protocol, port } => {
                to.push(5);
                source.write(to);
                protocol.write(to);
                port.write(to);
            }
            Subject::Key(key) => {
                to.push(6);
                key.to_string().write(to);
            }
            Subject::Watched { source, target, entry, list } => {
                to.push(7);
                source.write(to);
                target.write(to);
                entry.to_string().write(to);
                list.to_string().write(to);
            }
            Subject::Target { target, protocol, port, of_sender } => {
                to.push(8);
                target.write(to);
                protocol.write(to);
                port.write(to);
                to.push(u8::from(*of_sender));
            }
            Subject::Called { source, target, protocol, port } => {
                to.push(9);
                source.write(to);
                target.write(to);
                protocol.write(to);
                port.write(to);
            }
            Subject::Line { series, expression } => {
                to.push(10);
                series.to_string().write(to);
                expression.to_string().write(to);
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(match from.byte()? {
            0 => Subject::Sensor,
            1 => Subject::Interface(String::read(from)?.into()),
            2 => Subject::Output(String::read(from)?.into()),
            3 => Subject::Host(Binary::read(from)?),
            4 => Subject::Pair { source: Binary::read(from)?, target: Binary::read(from)? },
            5 => Subject::Port {
                source: Binary::read(from)?,
                protocol: Binary::read(from)?,
                port: Binary::read(from)?,
            },
            6 => Subject::Key(String::read(from)?.into()),
            7 => Subject::Watched {
                source: Binary::read(from)?,
                target: Binary::read(from)?,
                entry: String::read(from)?.into(),
                list: String::read(from)?.into(),
            },
            8 => Subject::Target {
                target: Binary::read(from)?,
                protocol: Binary::read(from)?,
                port: Binary::read(from)?,
                of_sender: match from.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::Invalid("subject")),
                },
            },
            9 => Subject::Called {
                source: Binary::read(from)?,
                target: Binary::read(from)?,
                protocol: Binary::read(from)?,
                port: Binary::read(from)?,
            },
            10 => {
                Subject::Line { series: String::read(from)?.into(), expression: String::read(from)?.into() }
            }
            _ => return Err(DecodeError::Invalid("subject")),
        })
    }
}

impl Binary for Origin {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { subscription, name, severity, quiet } = self;
        subscription.to_string().write(to);
        name.as_deref().unwrap_or_default().to_owned().write(to);
        // 0 is that of the kind.
        let at = severity.and_then(|severity| Severity::ALL.iter().position(|one| *one == severity));
        to.push(at.map_or(0, |at| at as u8 + 1));
        quiet.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let (subscription, name) = (String::read(from)?, String::read(from)?);
        let severity = match from.byte()? {
            0 => None,
            at => Some(*Severity::ALL.get(usize::from(at) - 1).ok_or(DecodeError::Invalid("severity"))?),
        };
        Ok(Self {
            subscription: subscription.into(),
            name: (!name.is_empty()).then(|| name.into()),
            severity,
            quiet: Binary::read(from)?,
        })
    }
}

impl Binary for Evidence {
    fn write(&self, to: &mut Vec<u8>) {
        self.name.write(to);
        self.unit.write(to);
        self.value.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(Self { name: Binary::read(from)?, unit: Binary::read(from)?, value: Binary::read(from)? })
    }
}

impl Binary for Event {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { id, state, kind, origin, subject, begin, last, count, evidence } = self;
        id.write(to);
        to.push(EventState::ALL.iter().position(|one| one == state).unwrap_or_default() as u8);
        kind.write(to);
        // That is at the end of the snapshot: see `write_origins`.
        let _ = origin;
        subject.write(to);
        begin.write(to);
        last.write(to);
        count.write(to);
        evidence.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let id = Binary::read(from)?;
        let state = EventState::ALL.get(usize::from(from.byte()?)).copied();
        let event = Self {
            id,
            state: state.ok_or(DecodeError::Invalid("state of an event"))?,
            kind: Binary::read(from)?,
            origin: None,
            subject: Binary::read(from)?,
            begin: Binary::read(from)?,
            last: Binary::read(from)?,
            count: from.count()?,
            evidence: Binary::read(from)?,
        };
        let is_sorted = event.evidence.is_sorted_by(|one, next| one.name < next.name);
        match is_sorted && event.evidence.len() <= MAX_EVIDENCE {
            true => Ok(event),
            false => Err(DecodeError::Invalid("evidence")),
        }
    }
}

/// Writes the origins of events, each with the place of its event.
pub(super) fn write_origins(events: &[Event], to: &mut Vec<u8>) {
    let origin = |(at, event): (usize, &Event)| Some((at as u64, Origin::clone(event.origin.as_ref()?)));
    events.iter().enumerate().filter_map(origin).collect::<Vec<(u64, Origin)>>().write(to);
}

/// Reads what [`write_origins`] has written, into its events.
pub(super) fn read_origins(events: &mut [Event], from: &mut Bytes<'_>) -> Result<(), DecodeError> {
    for (at, origin) in Vec::<(u64, Origin)>::read(from)? {
        let event = usize::try_from(at).ok().and_then(|at| events.get_mut(at));
        event.ok_or(DecodeError::Invalid("place of an origin"))?.origin = Some(Arc::new(origin));
    }
    Ok(())
}

/// `muted` is at the end of the snapshot.
impl Binary for EventCount {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { begun, merged, ended, muted: _, shed } = self;
        [begun, merged, ended, shed].into_iter().for_each(|count| count.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let [begun, merged, ended] = [from.count()?, from.count()?, from.count()?];
        Ok(Self { begun, merged, ended, muted: 0, shed: from.count()? })
    }
}
