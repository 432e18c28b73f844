//! What an alert knows of its transaction, as the object that Suricata's events of the protocol have.

use crate::format::push_number;
use crate::json::{Object, push_list, push_text};
use weir_proto::{Record, Value};

/// Members that have the first value of a buffer as a text, whichever side sent it.
const TEXTS: &[(&str, &str)] = &[
    ("http.host", "hostname"),
    ("http.uri.raw", "url"),
    ("http.user_agent", "http_user_agent"),
    ("http.referer", "http_refer"),
    ("http.method", "http_method"),
    ("http.protocol", "protocol"),
    ("email.from", "from"),
    ("ftp.command", "command"),
    ("ntp.reference_id", "reference_id"),
    ("smtp.helo", "helo"),
    ("smtp.mail_from", "mail_from"),
    ("tls.sni", "sni"),
    ("tls.cert_subject", "subject"),
    ("tls.cert_issuer", "issuerdn"),
    ("tls.cert_serial", "serial"),
    ("tls.cert_fingerprint", "fingerprint"),
];

/// Members that have it as a number.
const NUMBERS: [(&str, &str); 4] = [
    ("http.stat_code", "status"),
    ("ntp.version", "version"),
    ("ntp.mode", "mode"),
    ("ntp.stratum", "stratum"),
];

/// Members that have a list of all values.
const LISTS: [(&str, &str); 3] = [("smtp.rcpt_to", "rcpt_to"), ("email.to", "to"), ("email.cc", "cc")];

/// Members of both sides' objects of SSH.
const OF_SIDE: [(&str, &str); 2] = [("ssh.proto", "proto_version"), ("ssh.software", "software_version")];

/// Lists of names of DNS.
const NAMES: [(&str, &str); 2] = [("dns.queries.rrname", "queries"), ("dns.answers.rrname", "answers")];

/// What is known of a transaction.
struct Known<'r>(Vec<[&'r [u8]; 3]>);

impl<'r> Known<'r> {
    /// The side, the buffer and the value of each text of an alert.
    fn of(record: &'r Record<'_>) -> Self {
        let Value::List(texts) = record.get("buffers") else { return Self(Vec::new()) };
        let parts = texts.iter().filter_map(|text| match text {
            Value::Text(text) => {
                let mut parts = text.splitn(3, |byte| *byte == b' ');
                Some([parts.next()?, parts.next()?, parts.next()?])
            }
            _ => None,
        });
        Self(parts.collect())
    }

    /// The first words of the buffers: the protocol, and `email` beside that of the mail.
    fn objects(&self) -> Vec<&'r str> {
        let mut objects = Vec::new();
        for [_, buffer, _] in &self.0 {
            let word = std::str::from_utf8(buffer).ok().and_then(|buffer| buffer.split('.').next());
            objects.extend(word.filter(|word| !objects.contains(word)));
        }
        objects
    }

    /// The values of a buffer that a side has sent, or any side.
    fn values(&self, of: &str, sender: Option<&str>) -> impl Iterator<Item = &'r [u8]> {
        let is_it = move |[side, buffer, _]: &&[&[u8]; 3]| {
            *buffer == of.as_bytes() && sender.is_none_or(|sender| *side == sender.as_bytes())
        };
        self.0.iter().filter(is_it).map(|[_, _, value]| *value)
    }
}

/// Writes the objects of what is known.
pub(super) fn write(event: &mut Object<'_>, record: &Record<'_>) {
    let known = Known::of(record);
    for name in known.objects() {
        event.object(name, |object| match name {
            "dns" => write_dns(object, &known, *record.get("direction") == "to_client".into()),
            "ssh" => write_ssh(object, &known),
            _ => write_members(object, &known, name),
        });
    }
}

/// Writes the members of the object of a name.
fn write_members(object: &mut Object<'_>, known: &Known<'_>, name: &str) {
    let is_of_it = |(buffer, _): &&(&str, &str)| buffer.split('.').next() == Some(name);
    for (buffer, member) in TEXTS.iter().filter(is_of_it) {
        if let Some(value) = known.values(buffer, None).next() {
            push_text(object.member(member), value);
        }
    }
    for (buffer, member) in NUMBERS.iter().filter(is_of_it) {
        let value = known.values(buffer, None).next();
        let number = value.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u16>().ok());
        if let Some(number) = number {
            push_number(object.member(member), number.into());
        }
    }
    for (buffer, member) in LISTS.iter().filter(is_of_it) {
        let values = known.values(buffer, None);
        let values: Vec<&[u8]> = match name {
            "email" => values.flat_map(addresses).collect(),
            _ => values.collect(),
        };
        if !values.is_empty() {
            push_list(object.member(member), values, push_text);
        }
    }
}

/// The addresses of a field: commas stand between them, and not within quotes.
fn addresses(field: &[u8]) -> Vec<&[u8]> {
    let mut is_quoted = false;
    let parts = field.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    parts.map(<[u8]>::trim_ascii).filter(|address| !address.is_empty()).collect()
}

fn write_ssh(object: &mut Object<'_>, known: &Known<'_>) {
    for (side, member) in [("to_server", "client"), ("to_client", "server")] {
        let values = OF_SIDE.map(|(buffer, member)| (known.values(buffer, Some(side)).next(), member));
        if values.iter().any(|(value, _)| value.is_some()) {
            object.object(member, |banner| {
                for (value, member) in values {
                    if let Some(value) = value {
                        push_text(banner.member(member), value);
                    }
                }
            });
        }
    }
}

/// Each message of DNS is a transaction of its own.
fn write_dns(object: &mut Object<'_>, known: &Known<'_>, is_response: bool) {
    object.number("version", 3_u8);
    object.word("type", if is_response { "response" } else { "request" });
    for (buffer, member) in NAMES {
        let mut names = known.values(buffer, None).peekable();
        if names.peek().is_some() {
            push_list(object.member(member), names, |out, name| {
                Object::write(out, |row| push_text(row.member("rrname"), name));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use serde_json::json;
    use weir_proto::Alert;

    fn written(texts: &[&str], direction: &'static str) -> serde_json::Value {
        let mut record = fixtures::alert("x");
        record.set("buffers", Value::list(texts.iter().copied()).into_owned());
        record.set("direction", direction.into());
        let mut out = Vec::new();
        Object::write(&mut out, |event| write(event, &record));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_buffer_of_alerts_has_a_member() {
        for buffer in Alert::BUFFERS {
            let object = written(&[&format!("to_server {buffer} 200")], "to_client");
            let protocol = buffer.split('.').next().unwrap();
            let members = object[protocol].as_object().unwrap();
            assert_eq!(members.len(), if protocol == "dns" { 3 } else { 1 }, "{buffer}: {object}");
        }
        assert_eq!(written(&[], "to_server"), json!({}));
    }

    #[test]
    fn objects_are_those_of_suricata() {
        let http = [
            "to_server http.method GET",
            "to_server http.uri.raw /a b",
            "to_server http.protocol HTTP/1.1",
            "to_client http.protocol HTTP/1.0",
            "to_client http.stat_code 404",
        ];
        assert_eq!(
            written(&http, "to_client"),
            json!({"http": {"http_method": "GET", "url": "/a b", "protocol": "HTTP/1.1", "status": 404}})
        );
        let smtp = ["to_server smtp.helo GP", "to_server smtp.rcpt_to <a@b>", "to_server smtp.rcpt_to <c@d>"];
        assert_eq!(
            written(&smtp, "to_server"),
            json!({"smtp": {"helo": "GP", "rcpt_to": ["<a@b>", "<c@d>"]}})
        );
        let mail = [
            "to_server smtp.helo GP",
            "to_server email.from A <a@b>",
            "to_server email.to \"c, d\" <c@d>, <e@f>",
        ];
        assert_eq!(
            written(&mail, "to_server"),
            json!({"smtp": {"helo": "GP"}, "email": {"from": "A <a@b>", "to": ["\"c, d\" <c@d>", "<e@f>"]}})
        );
        let ntp = ["to_client ntp.mode 4", "to_client ntp.reference_id 4c:4f:43:4c"];
        assert_eq!(written(&ntp, "to_client"), json!({"ntp": {"mode": 4, "reference_id": "4c:4f:43:4c"}}));
        let ssh =
            ["to_server ssh.proto 2.0", "to_client ssh.proto 1.99", "to_client ssh.software Cisco-1.25"];
        assert_eq!(
            written(&ssh, "to_client"),
            json!({"ssh": {
                "client": {"proto_version": "2.0"},
                "server": {"proto_version": "1.99", "software_version": "Cisco-1.25"},
            }})
        );
        let dns = ["to_client dns.queries.rrname a.example", "to_client dns.answers.rrname b.example"];
        assert_eq!(
            written(&dns, "to_client"),
            json!({"dns": {
                "version": 3, "type": "response",
                "queries": [{"rrname": "a.example"}], "answers": [{"rrname": "b.example"}],
            }})
        );
    }
}
