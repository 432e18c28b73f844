//! The tables of mail, and the code that fills their rows.

use crate::early::early;
use crate::mime::{self, Head, Mail, Message};
use crate::{Kind, Out, Privacy, Span, Table, Value, field, record};
use std::net::IpAddr;
use weir_wire::Time;

/// Maximum number of URLs, recipients and hosts of a path.
const MAX_PATH: usize = 64;

pub(super) static SMTP: Table = Table {
    name: "smtp",
    help: "A mail, or a mail transaction that was not completed; also a switch to TLS.",
    zeek: "smtp",
    eve: "smtp",
    fields: &[
        field(
            "depth",
            Kind::Uint,
            "Number of the mail in the session: 1 plus the number of mails accepted before it.",
        )
        .zeek("trans_depth"),
        field("helo", Kind::Text, "Name of the client in HELO or EHLO.")
            .zeek("helo")
            .eve("smtp.helo")
            .privacy(Privacy::Name),
        field("sender", Kind::Text, "Address in MAIL FROM.").zeek("mailfrom").privacy(Privacy::Mail),
        field("recipients", Kind::Set(&Kind::Text), "Addresses in RCPT TO.")
            .zeek("rcptto")
            .privacy(Privacy::Mail),
        field("date", Kind::Text, "Date field of the header.").zeek("date").eve("email.date"),
        field("from", Kind::Text, "From field of the header.")
            .zeek("from")
            .eve("email.from")
            .privacy(Privacy::Mail),
        field("to", Kind::Set(&Kind::Text), "Addresses of the To field.")
            .zeek("to")
            .eve("email.to")
            .privacy(Privacy::Mail),
        field("cc", Kind::Set(&Kind::Text), "Addresses of the Cc field.")
            .zeek("cc")
            .eve("email.cc")
            .privacy(Privacy::Mail),
        field("reply_to", Kind::Text, "Reply-To field of the header.")
            .zeek("reply_to")
            .privacy(Privacy::Mail),
        field("message_id", Kind::Text, "Message-ID field of the header.")
            .zeek("msg_id")
            .eve("email.message_id")
            .privacy(Privacy::Mail),
        field("in_reply_to", Kind::Text, "In-Reply-To field of the header.")
            .zeek("in_reply_to")
            .privacy(Privacy::Mail),
        field("subject", Kind::Text, "Subject field of the header, as sent.")
            .zeek("subject")
            .eve("email.subject")
            .privacy(Privacy::Content),
        field("originating", Kind::Address, "Address in the X-Originating-IP field.")
            .zeek("x_originating_ip"),
        field("first_received", Kind::Text, "Last Received field of the header, which the first host added.")
            .zeek("first_received")
            .privacy(Privacy::Content),
        field("second_received", Kind::Text, "Received field before the last one.")
            .zeek("second_received")
            .privacy(Privacy::Content),
        field("last_reply", Kind::Text, "Last reply of the server.")
            .zeek("last_reply")
            .privacy(Privacy::Content),
        field("path", Kind::List(&Kind::Address), "Hosts of the mail's path, the last one first.")
            .zeek("path"),
        field("user_agent", Kind::Text, "Program that wrote the mail (X-Mailer, User-Agent, X-User-Agent).")
            .zeek("user_agent"),
        field("tls", Kind::Bool, "Whether the session switched to TLS.").zeek("tls"),
        field(
            "files",
            Kind::List(&Kind::Text),
            "Identifiers of the files that are parts of the mail (Zeek's fuid).",
        )
        .zeek("fuids"),
        field("webmail", Kind::Bool, "Whether the mail was written with a webmail program.")
            .zeek("is_webmail"),
        field("subject_text", Kind::Text, "Subject field, with encoded words decoded to UTF-8.")
            .privacy(Privacy::Content),
        field("user", Kind::Text, "User name that the client logged in with (AUTH).").privacy(Privacy::User),
        field("mechanism", Kind::Text, "Authentication mechanism of the login (PLAIN, LOGIN, ...)."),
        field("mail_from", Kind::Text, "Argument of MAIL FROM, without parameters.")
            .eve("smtp.mail_from")
            .privacy(Privacy::Mail),
        field("rcpt_to", Kind::List(&Kind::Text), "Arguments of RCPT TO, without parameters.")
            .eve("smtp.rcpt_to")
            .privacy(Privacy::Mail),
        field(
            "status",
            Kind::Word,
            "Result of parsing the mail: PARSE_DONE, or PARSE_ERROR if bytes are missing.",
        )
        .eve("email.status"),
        field("reply_to_list", Kind::List(&Kind::Text), "Addresses of the Reply-To field.")
            .privacy(Privacy::Mail),
        field("bcc", Kind::List(&Kind::Text), "Bcc field of the header.").privacy(Privacy::Mail),
        field("mailer", Kind::Text, "X-Mailer field of the header.").eve("email.x_mailer"),
        field("agent", Kind::Text, "User-Agent field of the header."),
        field("originating_text", Kind::Text, "X-Originating-IP field of the header.")
            .privacy(Privacy::Address),
        field("received", Kind::List(&Kind::Text), "Received fields of the header.")
            .eve("email.received")
            .privacy(Privacy::Content),
        field("references", Kind::Text, "References field of the header.").privacy(Privacy::Mail),
        field("importance", Kind::Text, "Importance field of the header."),
        field("priority", Kind::Text, "Priority field of the header."),
        field("sensitivity", Kind::Text, "Sensitivity field of the header."),
        field("organization", Kind::Text, "Organization field of the header.").privacy(Privacy::Name),
        field("attachments", Kind::List(&Kind::Text), "Names of the attachments, as sent.")
            .eve("email.attachment")
            .privacy(Privacy::Content),
        field("urls", Kind::List(&Kind::Text), "URLs in the text of the mail.").privacy(Privacy::Url),
        field("plain_urls", Kind::List(&Kind::Text), "URLs in the text of the mail, without scheme.")
            .eve("email.url")
            .privacy(Privacy::Url),
        field("ipv4_url", Kind::Bool, "Whether the host of a URL is an IPv4 address.")
            .eve("email.has_ipv4_url"),
        field("ipv6_url", Kind::Bool, "Whether the host of a URL is an IPv6 address.")
            .eve("email.has_ipv6_url"),
        field("exe_url", Kind::Bool, "Whether a URL names a Windows program.").eve("email.has_exe_url"),
        field("content_type", Kind::Text, "Content-Type field of the header."),
        field("mime_version", Kind::Text, "MIME-Version field of the header."),
        field("headers", Kind::List(&Kind::Text), "Names of the header fields, in lower case."),
        field("bytes", Kind::Uint, "Size of the message in bytes."),
        field("accepted", Kind::Bool, "Whether the server accepted the mail."),
        field("transaction", Kind::Uint, "Number of the row among those of the flow, from 0.").eve("tx_id"),
    ],
};

pub(super) static SESSION: Table = Table {
    name: "smtp_session",
    help: "A session, or a part of a session, without a mail.",
    zeek: "",
    eve: "smtp",
    fields: &[
        field("helo", Kind::Text, "Name of the client in HELO or EHLO.")
            .eve("smtp.helo")
            .privacy(Privacy::Name),
        field("user", Kind::Text, "User name that the client logged in with (AUTH).").privacy(Privacy::User),
        field("mechanism", Kind::Text, "Authentication mechanism of the login (PLAIN, LOGIN, ...)."),
        field("greeting", Kind::Text, "Greeting of the server.").privacy(Privacy::Content),
        field("last_reply", Kind::Text, "Last reply of the server.").privacy(Privacy::Content),
        field("transaction", Kind::Uint, "Number of the row among those of the flow, from 0.").eve("tx_id"),
    ],
};

/// The dialogue of one mail transaction.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Time at which it began.
    pub time: Time,
    /// Its bytes, from its first command on, and those of the reply to the mail.
    pub at: Span,
    /// Whether MAIL FROM, RCPT TO or STARTTLS was sent.
    pub is_active: bool,
    pub mail_from: Option<Vec<u8>>,
    pub rcpt_to: Vec<Vec<u8>>,
    pub mail: Option<Message>,
    /// Whether the mail has ended, and whether with its last bytes.
    pub is_whole: bool,
    pub tls: bool,
    pub accepted: Option<bool>,
    /// Whether the header of the mail was delivered.
    pub is_handed_on: bool,
    /// Whether no recipient follows any more, which was noted.
    pub is_complete: bool,
}

/// Facts of the whole session.
#[derive(Debug, Default)]
pub(super) struct Hello {
    pub helo: Option<Vec<u8>>,
    pub user: Option<Vec<u8>>,
    pub mechanism: Option<Vec<u8>>,
    pub greeting: Option<Vec<u8>>,
}

impl Transaction {
    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let texts = self.rcpt_to.iter().chain(&self.mail_from).map(|text| text.capacity() + 24);
        self.mail.as_ref().map_or(0, Message::memory) + texts.sum::<usize>()
    }

    /// Hands on the header of the mail when it is complete.
    pub fn hand_on(&mut self, out: &mut dyn Out) {
        let Some(mail) = self.mail.as_ref().map(|message| &message.mail) else { return };
        if self.is_handed_on || !mail.has_head() {
            return;
        }
        let get = |name: &str| Value::from(mail.head.get(name));
        early!(
            out,
            SMTP,
            date = get("date"),
            from = get("from"),
            message_id = get("message-id"),
            subject = get("subject"),
        );
        self.is_handed_on = true;
    }

    /// Emits the mail, with its number among the rows and its number among the mails.
    pub fn emit(
        self,
        [transaction, depth]: [u64; 2],
        hello: &Hello,
        last_reply: Option<&[u8]>,
        ends: [IpAddr; 2],
        out: &mut dyn Out,
    ) {
        if !out.takes(&SMTP) {
            return;
        }
        let owned = |text: &Option<Vec<u8>>| Value::from(text.clone());
        let set = |mut texts: Vec<Vec<u8>>| {
            let mut seen = std::collections::HashSet::new();
            texts.retain(|text| seen.insert(text.clone()));
            Value::list(texts)
        };
        let none = Mail::default();
        let has_mail = self.mail.is_some();
        let mail = self.mail.as_ref().map_or(&none, |message| &message.mail);
        let files = self.mail.as_ref().map_or(&[][..], |message| &message.names);
        let head = &mail.head;
        let get = |name: &str| Value::from(head.get(name));
        let agent = head.last_of(&["x-mailer", "user-agent", "x-user-agent"]);
        let (received, addresses) = (head.all("received"), |name| head.addresses(name).unwrap_or_default());
        let sender = self.mail_from.as_deref().and_then(mime::address).map(<[u8]>::to_vec);
        let recipients = self.rcpt_to.iter().filter_map(|said| mime::address(said)).map(<[u8]>::to_vec);
        let flag = |test: fn(&[u8]) -> bool| match mail.urls().iter().any(|url| test(url)) {
            true => Value::Bool(true),
            false => Value::None,
        };
        let status = match (has_mail, self.is_whole && !mail.has_gap) {
            (false, _) => Value::None,
            (true, true) => "PARSE_DONE".into(),
            (true, false) => "PARSE_ERROR".into(),
        };
        let originating = head.get("x-originating-ip");
        let record = record!(
            SMTP,
            self.time,
            depth = depth,
            helo = owned(&hello.helo),
            sender = sender,
            recipients = set(recipients.collect()),
            date = get("date"),
            from = get("from"),
            to = set(addresses("to")),
            cc = set(addresses("cc")),
            reply_to = get("reply-to"),
            message_id = get("message-id"),
            in_reply_to = get("in-reply-to"),
            subject = get("subject"),
            originating = originating.as_deref().and_then(|text| mime::hosts(text).next()),
            first_received = received.last().cloned(),
            second_received = received.iter().rev().nth(1).cloned(),
            last_reply = last_reply.map(<[u8]>::to_vec),
            path = path(&received, ends),
            user_agent = agent.clone(),
            tls = self.tls,
            files = files.iter().map(String::as_bytes).map(<[u8]>::to_vec).collect::<Value<'_>>(),
            webmail = agent.is_some_and(|agent| is_webmail(&agent)),
            subject_text = head.text("subject"),
            user = owned(&hello.user),
            mechanism = owned(&hello.mechanism),
            mail_from = self.mail_from,
            rcpt_to = Value::list(self.rcpt_to),
            status = status,
            reply_to_list = Value::list(addresses("reply-to")),
            bcc = Value::list(addresses("bcc")),
            mailer = get("x-mailer"),
            agent = get("user-agent"),
            originating_text = originating,
            received = Value::list(head.all_joined("received")),
            references = get("references"),
            importance = get("importance"),
            priority = get("priority"),
            sensitivity = get("sensitivity"),
            organization = get("organization"),
            attachments = Value::list(mail.attachments.clone()),
            urls = Value::list(mail.urls().to_vec()),
            plain_urls = Value::list(mail.urls().iter().map(|url| mime::without_scheme(url).to_vec())),
            ipv4_url = flag(mime::is_ipv4),
            ipv6_url = flag(mime::is_ipv6),
            exe_url = flag(mime::is_program),
            content_type = get("content-type"),
            mime_version = get("mime-version"),
            headers = names(head),
            bytes = if has_mail { mail.bytes.into() } else { Value::None },
            accepted = self.accepted,
            transaction = transaction,
        );
        out.record(record.over(self.at));
    }
}

impl Hello {
    /// Emits a session without a mail.
    pub fn emit(&self, transaction: u64, at: Span, time: Time, last_reply: Option<&[u8]>, out: &mut dyn Out) {
        if !out.takes(&SESSION) {
            return;
        }
        let owned = |text: &Option<Vec<u8>>| Value::from(text.clone());
        let record = record!(
            SESSION,
            time,
            helo = owned(&self.helo),
            user = owned(&self.user),
            mechanism = owned(&self.mechanism),
            greeting = owned(&self.greeting),
            last_reply = last_reply,
            transaction = transaction,
        );
        out.record(record.over(at));
    }
}

/// The names of a header's fields.
fn names(head: &Head) -> Value<'static> {
    match head.names() {
        names if names.is_empty() => Value::None,
        names => names.into_iter().map(<[u8]>::to_vec).collect(),
    }
}

/// The server, the client, and before them the hosts of the Received fields; of two hosts in one field the second is
/// the one that was observed and not claimed.
fn path(received: &[Vec<u8>], ends: [IpAddr; 2]) -> Value<'static> {
    let mut path = ends.to_vec();
    for field in received.iter().take(MAX_PATH) {
        let mut hosts = mime::hosts(field);
        let first = hosts.next();
        let Some(host) = hosts.next().or(first) else { continue };
        if path.last() != Some(&host) {
            path.push(host);
        }
    }
    path.into_iter().collect()
}

/// Whether a program is a webmail program.
fn is_webmail(agent: &[u8]) -> bool {
    let begins: [&[u8]; 4] =
        [b"iPlanet Messenger", b"Sun Java(tm) System Messenger Express", b"SquirrelMail", b"NeoMail"];
    let holds: [&[u8]; 2] = [b"(IMP)", b"ZimbraWebClient"];
    begins.iter().any(|word| agent.starts_with(word))
        || holds.iter().any(|word| agent.windows(word.len()).any(|window| window == *word))
}
