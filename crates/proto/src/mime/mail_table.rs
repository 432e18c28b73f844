//! Messages that are fetched or stored, over protocols without an envelope.

use super::{Carrier, Message};
use crate::{Kind, Out, Privacy, Record, Table, Value, field};
use weir_wire::Time;

/// Messages of POP3 and IMAP.
pub static MAIL: Table = Table {
    name: "mail",
    help: "A message that was fetched or stored over POP3 or IMAP, or its header.",
    zeek: "",
    eve: "",
    fields: &[
        field("protocol", Kind::Word, "What carried it."),
        field("command", Kind::Text, "The command that moved it."),
        field("user", Kind::Text, "Who logged in.").privacy(Privacy::User),
        field("folder", Kind::Text, "The folder that it is in.").privacy(Privacy::Content),
        field("reverse", Kind::Bool, "Whether the server sent it."),
        field("date", Kind::Text, "Date of the header."),
        field("from", Kind::Text, "From of the header.").privacy(Privacy::Mail),
        field("to", Kind::List(&Kind::Text), "To of the header.").privacy(Privacy::Mail),
        field("cc", Kind::List(&Kind::Text), "Cc of the header.").privacy(Privacy::Mail),
        field("reply_to", Kind::Text, "Reply-To of the header.").privacy(Privacy::Mail),
        field("message_id", Kind::Text, "Message-ID of the header.").privacy(Privacy::Mail),
        field("in_reply_to", Kind::Text, "In-Reply-To of the header.").privacy(Privacy::Mail),
        field("subject", Kind::Text, "Subject with its encoded words in UTF-8.").privacy(Privacy::Content),
        field("user_agent", Kind::Text, "The program that wrote it."),
        field("received", Kind::List(&Kind::Text), "The Received fields.").privacy(Privacy::Content),
        field("attachments", Kind::List(&Kind::Text), "Names of the files in it, as they were sent.")
            .privacy(Privacy::Content),
        field("urls", Kind::List(&Kind::Text), "URLs in its text.").privacy(Privacy::Url),
        field("files", Kind::List(&Kind::Text), "Names of the files that are its parts, in records."),
        field("bytes", Kind::Uint, "Bytes of what was sent."),
        field("whole", Kind::Bool, "Whether all that was to be sent was seen."),
    ],
};

impl Message {
    /// Emits a message that has ended.
    pub fn emit(
        &self,
        command: &[u8],
        user: Option<&[u8]>,
        folder: Option<&[u8]>,
        is_whole: bool,
        time: Time,
        out: &mut dyn Out,
    ) {
        let Carrier { protocol, direction, .. } = self.carrier;
        let head = &self.mail.head;
        let list = |texts: Vec<Vec<u8>>| match texts {
            texts if texts.is_empty() => Value::None,
            texts => texts.into_iter().collect(),
        };
        let values = vec![
            protocol.name.into(),
            command.into(),
            user.into(),
            folder.into(),
            (direction == weir_wire::Direction::Reverse).into(),
            head.get("date").into(),
            head.get("from").into(),
            list(head.addresses("to").unwrap_or_default()),
            list(head.addresses("cc").unwrap_or_default()),
            head.get("reply-to").into(),
            head.get("message-id").into(),
            head.get("in-reply-to").into(),
            head.text("subject").into(),
            head.last_of(&["x-mailer", "user-agent", "x-user-agent"]).into(),
            list(head.all("received")),
            list(self.mail.attachments.clone()),
            list(self.mail.urls().to_vec()),
            list(self.names.iter().map(|name| name.clone().into_bytes()).collect()),
            self.mail.bytes.into(),
            (is_whole && !self.mail.has_gap).into(),
        ];
        out.record(Record { table: &MAIL, time, values });
    }
}
