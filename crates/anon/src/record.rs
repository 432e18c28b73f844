//! Rows of flows, records of protocols, and snapshots.

use super::{Anonymiser, Treatment};
use aes::Aes128;
use aes::cipher::BlockEncrypt;
use aes::cipher::generic_array::GenericArray;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
use weir_api::{Datum, Interval, Key, NETWORK_NAMES, OWN_WORDS, Reading, Rewrite, Rows, Snapshot, Top};
use weir_flow::{FlowIdentity, FlowRecord};
use weir_proto::{Field, Kind, Privacy, Record, Value, tables};
use weir_wire::FlowKey;

/// File name extensions, which describe the kind of a file and not its owner.
const ENDINGS: &[&str] = &[
    "asp", "aspx", "bmp", "cgi", "css", "csv", "doc", "docx", "exe", "gif", "gz", "htm", "html", "ico",
    "jpeg", "jpg", "js", "json", "jsp", "mp3", "mp4", "pdf", "php", "png", "rar", "svg", "swf", "tar", "txt",
    "wasm", "webp", "woff", "woff2", "xls", "xlsx", "xml", "zip",
];

impl Anonymiser {
    /// Rewrites the row of a flow.
    pub fn flow(&mut self, flow: &mut FlowRecord) {
        self.key(&mut flow.key, &mut flow.initiator_is_lower);
        flow.id = self.id(flow.id);
        if flow.parent != 0 {
            flow.parent = self.id(flow.parent);
        }
        if flow.other_parent != 0 {
            flow.other_parent = self.id(flow.other_parent);
        }
        if flow.follows != 0 {
            flow.follows = self.id(flow.follows);
        }
        flow.first = self.time(flow.first);
        flow.last = self.time(flow.last);
        self.mac(&mut flow.forward.mac);
        self.mac(&mut flow.reverse.mac);
    }

    /// Rewrites the identity of a record's flow, with the identifier in the flow's row.
    pub fn identity(&mut self, flow: &mut FlowIdentity) {
        flow.alias = self.id(flow.id());
        self.key(&mut flow.key, &mut flow.initiator_is_lower);
        flow.first = self.time(flow.first);
    }

    /// Maps the endpoints and restores their order.
    fn key(&mut self, key: &mut FlowKey, initiator_is_lower: &mut bool) {
        let addr = key.addr.map(|address| self.addresses.v6(address));
        key.addr = addr;
        if key.is_one_way() {
            return;
        }
        let ([low, high], [low_port, high_port]) = (key.addr, key.port);
        if (low, low_port) > (high, high_port) {
            (key.addr, key.port) = ([high, low], [high_port, low_port]);
            *initiator_is_lower = !*initiator_is_lower;
        }
    }

    /// Rewrites a record.
    pub fn record(&mut self, record: &mut Record<'_>) {
        record.time = self.time(record.time);
        for (field, value) in record.table.fields.iter().zip(&mut record.values) {
            if self.policy.fields.is_empty() || !self.field(record.table.name, field.name, value) {
                self.value(value, field.privacy, &field.kind);
            }
        }
    }

    fn row(&mut self, fields: &[Field], values: &mut [Value<'_>]) {
        for (field, value) in fields.iter().zip(values) {
            self.value(value, field.privacy, &field.kind);
        }
    }

    fn value(&mut self, value: &mut Value<'_>, privacy: Privacy, kind: &Kind) {
        match (&mut *value, kind) {
            (Value::None, _) => return,
            (Value::Address(address), _) => {
                *address = self.addresses.ip(*address);
                return;
            }
            (Value::Time(time), _) => {
                *time = self.time(*time);
                return;
            }
            (Value::Rows(rows), Kind::Rows(fields)) => {
                rows.iter_mut().for_each(|row| self.row(fields, row));
                return;
            }
            (Value::List(values), Kind::List(kind) | Kind::Set(kind)) => {
                values.iter_mut().for_each(|value| self.value(value, privacy, kind));
                values.retain(|value| !value.is_none());
                return;
            }
            _ => {}
        }
        let treatment = self.policy.treatment(privacy);
        match (treatment, &mut *value) {
            (Treatment::Keep, Value::Text(text)) => {
                // An address in any field is mapped as an address.
                if let Some(address) = parse(text) {
                    *text = Cow::Owned(self.addresses.ip(address).to_string().into_bytes());
                }
            }
            (Treatment::Keep, _) => {}
            (Treatment::Blank, Value::Text(text)) => *text = Cow::Owned(vec![b'x'; text.len()]),
            (Treatment::Pseudonym, Value::Text(text)) => {
                let image = self.text(privacy, text);
                *text = Cow::Owned(image);
            }
            (Treatment::Drop | Treatment::Blank | Treatment::Pseudonym, _) => *value = Value::None,
        }
    }

    /// Rewrites the name of a host that accompanies a record, as any name.
    pub fn name(&mut self, name: &str) -> Option<String> {
        let mut value = Value::from(name.to_owned());
        self.value(&mut value, Privacy::Name, &Kind::Text);
        match value {
            Value::Text(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            _ => None,
        }
    }

    /// A pseudonym for a text of a class.
    pub fn text(&mut self, privacy: Privacy, text: &[u8]) -> Vec<u8> {
        if text.is_empty() {
            return Vec::new();
        }
        match privacy {
            Privacy::Plain => text.to_vec(),
            Privacy::Name | Privacy::Address => self.host(text),
            Privacy::Url => self.url(text),
            Privacy::User => self.user(text),
            Privacy::Mail => self.mail(text),
            Privacy::Secret => self.words(b"secret", text),
            Privacy::Content => self.words(b"content", text),
            Privacy::Fingerprint => self.words(b"mark", text),
        }
    }

    /// Rewrites a name or address, with a port if there is one; in a list each of them.
    fn host(&mut self, text: &[u8]) -> Vec<u8> {
        let is_between = |byte: &u8| matches!(byte, b',' | b' ' | b';' | b'/' | b'\t');
        self.each(text, is_between, |this, part| {
            if parse(part).is_some() {
                return this.names.domain(&mut this.addresses, part);
            }
            // Only digits after the last colon: a port.
            let colon = part.iter().rposition(|byte| *byte == b':');
            let (name, port) = match colon.and_then(|at| part.split_at_checked(at)) {
                Some((name, port)) if port.iter().skip(1).all(u8::is_ascii_digit) => (name, port),
                _ => (part, &b""[..]),
            };
            let mut image = this.names.domain(&mut this.addresses, name);
            image.extend_from_slice(port);
            image
        })
    }

    /// Rewrites a user name. A name with a host is treated as a mail address; a domain may precede it with a
    /// backslash.
    fn user(&mut self, text: &[u8]) -> Vec<u8> {
        if text.contains(&b'@') {
            return self.mail(text);
        }
        self.words(b"user", text)
    }

    /// Replaces each word of letters and digits; separators are kept.
    fn words(&mut self, context: &[u8], text: &[u8]) -> Vec<u8> {
        // A byte beyond ASCII belongs to a letter.
        let is_between = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
        self.each(text, is_between, |this, part| this.names.word(context, part))
    }

    /// Rewrites mail addresses, and the words around them.
    fn mail(&mut self, text: &[u8]) -> Vec<u8> {
        let is_between = |byte: &u8| matches!(byte, b'<' | b'>' | b',' | b';' | b' ' | b'"' | b'\t' | b':');
        self.each(text, is_between, |this, part| {
            let Some(at) = part.iter().rposition(|byte| *byte == b'@') else {
                return this.words(b"user", part);
            };
            let (user, host) = part.split_at(at);
            let mut image = this.words(b"user", user);
            image.push(b'@');
            image.extend(this.host(host.get(1..).unwrap_or_default()));
            image
        })
    }

    /// Rewrites a URL or path: scheme, ports and file name extensions are kept.
    fn url(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        if let Some(at) = text.windows(3).position(|window| window == b"://")
            && let Some((scheme, after)) = text.split_at_checked(at + 3)
            && scheme
                .iter()
                .take(at)
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        {
            out.extend_from_slice(scheme);
            let end = after.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            match authority.iter().rposition(|byte| *byte == b'@') {
                Some(at) => {
                    let (user, host) = authority.split_at(at);
                    out.extend(self.words(b"user", user));
                    out.push(b'@');
                    out.extend(self.host(host.get(1..).unwrap_or_default()));
                }
                None => out.extend(self.host(authority)),
            }
            rest = path;
        }
        let is_between = |byte: &u8| {
            byte.is_ascii() && !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'%'))
        };
        out.extend(self.each(rest, is_between, |this, part| {
            if parse(part).is_some() {
                return this.names.domain(&mut this.addresses, part);
            }
            let point = part.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
            let (name, ending) = point.map_or((part, &b""[..]), |at| part.split_at(at));
            let is_known = std::str::from_utf8(ending.get(1..).unwrap_or_default())
                .is_ok_and(|ending| ENDINGS.binary_search(&ending.to_ascii_lowercase().as_str()).is_ok());
            if !is_known {
                return this.words(b"path", part);
            }
            let mut image = this.words(b"path", name);
            image.extend_from_slice(ending);
            image
        }));
        out
    }

    /// Applies a function to every part between separators.
    fn each(
        &mut self,
        text: &[u8],
        is_between: impl Fn(&u8) -> bool,
        work: impl Fn(&mut Self, &[u8]) -> Vec<u8>,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for chunk in text.chunk_by(|a, b| is_between(a) == is_between(b)) {
            if chunk.first().is_some_and(&is_between) {
                out.extend_from_slice(chunk);
            } else {
                out.extend(work(self, chunk));
            }
        }
        out
    }

    /// Rewrites a snapshot.
    pub fn snapshot(&mut self, snapshot: &mut Snapshot) {
        let moved = |time: u64| time.saturating_add_signed(self.policy.shift);
        let times = [Some(&mut snapshot.interval), snapshot.watched.as_mut(), snapshot.packets.as_mut()];
        for interval in times.into_iter().flatten().filter(|interval| **interval != Interval::default()) {
            *interval = Interval { start: moved(interval.start), end: moved(interval.end) };
        }
        let shift = self.policy.shift;
        for address in &mut snapshot.offloaders {
            *address = self.addresses.ip(*address);
        }
        snapshot.offloaders.sort_unstable();
        snapshot.offloaders.dedup();
        snapshot.senders.rename(|address| self.addresses.ip(address));
        for answer in &mut snapshot.answers {
            match &mut answer.reading {
                Reading::Top(top) => self.top(top),
                // An empty series has no time, but would show by how much it was shifted.
                Reading::Series(series) if !series.cells.is_empty() => {
                    // Its cells begin at multiples of their width and are shifted by whole cells.
                    let step = series.step.max(1) as i64;
                    let cells = shift.div_euclid(step);
                    series.first = series.first.saturating_add_signed(cells);
                }
                Reading::Table(table) => table.rewrite(self),
                Reading::Flooded(sums) => sums.rename(|address| self.addresses.ip(address)),
                _ => {}
            }
        }
        self.events(snapshot);
    }

    /// Rewrites the events of a snapshot. Events that become equal are merged.
    fn events(&mut self, snapshot: &mut Snapshot) {
        let Self { addresses, cipher, policy, .. } = self;
        let time = |time: u64| time.saturating_add_signed(policy.shift);
        let mut events = std::mem::take(&mut snapshot.events);
        for event in &mut events {
            event.subject = event.subject.map(|address| addresses.ip(address));
            (event.begin, event.last) = (time(event.begin), time(event.last));
            // Ports stay: they are no addresses.
            let value = |value| if value < 1 << 16 { value } else { encrypted(cipher, value) };
            event.evidence.iter_mut().for_each(|one| one.map(value, time));
        }
        snapshot.add_events(&events);
    }

    fn top(&mut self, top: &mut Top) {
        let mut rows = std::mem::take(top.rows.edit());
        rows.iter_mut().for_each(|row| row.key = self.top_key(row.key));
        top.rows = Rows::merged(rows);
    }

    fn top_key(&mut self, key: Key) -> Key {
        match key {
            Key::Address(address) => Key::Address(self.addresses.ip(address)),
            Key::Pair(source, destination) => {
                Key::Pair(self.addresses.ip(source), self.addresses.ip(destination))
            }
            Key::Flow { source, source_port, destination, destination_port, protocol } => Key::Flow {
                source: self.addresses.ip(source),
                source_port,
                destination: self.addresses.ip(destination),
                destination_port,
                protocol,
            },
            Key::Talker { server, port, client, protocol } => Key::Talker {
                server: self.addresses.ip(server),
                port,
                client: self.addresses.ip(client),
                protocol,
            },
            Key::Port { .. } | Key::Protocol(_) | Key::Vlan(_) => key,
        }
    }
}

/// Encrypts a number to an identifier that cannot be reversed without the key.
fn encrypted(cipher: &Aes128, number: u128) -> u128 {
    let mut block = GenericArray::from(number.to_be_bytes());
    cipher.encrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}

/// An address in text.
fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.map_or_else(|| text.parse().ok(), |inner| inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6))
}

impl Rewrite for Anonymiser {
    fn rewrite_datum(&mut self, datum: &Datum, field: &str) -> Datum {
        let text = match datum {
            Datum::Address(address) => return Datum::Address(self.addresses.ip(*address)),
            Datum::Text(_) if field == OWN_WORDS => return datum.clone(),
            Datum::Text(text) => text,
            Datum::Mac(mac) => {
                let mut image = *mac;
                self.mac(&mut image);
                return Datum::Mac(image);
            }
            Datum::Nothing | Datum::Number(_) => return datum.clone(),
        };
        if field == NETWORK_NAMES {
            let mut value = Value::Text(Cow::Borrowed(text.as_bytes()));
            self.value(&mut value, Privacy::Name, &Kind::Text);
            return match value {
                Value::Text(text) => Datum::Text(String::from_utf8_lossy(&text).into()),
                _ => Datum::Nothing,
            };
        }
        let found = field.split_once('.').and_then(|(table, name)| {
            let field = tables().filter(|known| known.name == table).flat_map(|table| table.fields);
            Some((table, field.into_iter().find(|field| field.name == name)?))
        });
        let Some((table, field)) = found else {
            let word = self.names.word(b"key", text.as_bytes());
            return Datum::Text(String::from_utf8_lossy(&word).into());
        };
        let mut value = Value::Text(Cow::Borrowed(text.as_bytes()));
        if self.policy.fields.is_empty() || !self.field(table, field.name, &mut value) {
            // A value of a list is treated as the list.
            self.value(&mut value, field.privacy, &Kind::Text);
        }
        match value {
            Value::Text(text) => Datum::Text(String::from_utf8_lossy(&text).into()),
            _ => Datum::Nothing,
        }
    }

    fn rewrite_number(&mut self, number: u128) -> u128 {
        // Ports stay: they are no addresses.
        if number < 1 << 16 { number } else { encrypted(&self.cipher, number) }
    }

    fn rewrite_time(&mut self, time: u64) -> u64 {
        time.saturating_add_signed(self.policy.shift)
    }
}
