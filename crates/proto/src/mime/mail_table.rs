//! Mails that are fetched or stored over protocols without an envelope.

use super::{Carrier, Message};
use crate::{Kind, Out, Privacy, Table, Value, field, record};
use weir_wire::Time;

/// Mails of POP3 and IMAP.
pub static MAIL: Table = Table {
    name: "mail",
    help: "A mail, or its header, that was fetched or stored over POP3 or IMAP.",
    zeek: "",
    eve: "",
    fields: &[
        field("protocol", Kind::Word, "Protocol that carried the mail."),
        field("command", Kind::Text, "Command that transferred the mail."),
        field("user", Kind::Text, "User name that the client logged in with.").privacy(Privacy::User),
        field("folder", Kind::Text, "Mailbox of the mail.").privacy(Privacy::Content),
        field("reverse", Kind::Bool, "Whether the server sent the mail."),
        field("date", Kind::Text, "Date field of the header."),
        field("from", Kind::Text, "From field of the header.").privacy(Privacy::Mail),
        field("to", Kind::List(&Kind::Text), "Addresses of the To field.").privacy(Privacy::Mail),
        field("cc", Kind::List(&Kind::Text), "Addresses of the Cc field.").privacy(Privacy::Mail),
        field("reply_to", Kind::Text, "Reply-To field of the header.").privacy(Privacy::Mail),
        field("message_id", Kind::Text, "Message-ID field of the header.").privacy(Privacy::Mail),
        field("in_reply_to", Kind::Text, "In-Reply-To field of the header.").privacy(Privacy::Mail),
        field("subject", Kind::Text, "Subject field, with encoded words decoded to UTF-8.")
            .privacy(Privacy::Content),
        field("user_agent", Kind::Text, "Program that wrote the mail (User-Agent or X-Mailer)."),
        field("received", Kind::List(&Kind::Text), "Received fields of the header.")
            .privacy(Privacy::Content),
        field("attachments", Kind::List(&Kind::Text), "Names of the attachments, as sent.")
            .privacy(Privacy::Content),
        field("urls", Kind::List(&Kind::Text), "URLs in the text of the mail.").privacy(Privacy::Url),
        field(
            "files",
            Kind::List(&Kind::Text),
            "Identifiers of the files that are parts of the mail (Zeek's fuid).",
        ),
        field("bytes", Kind::Uint, "Size of the transferred mail in bytes."),
        field("whole", Kind::Bool, "Whether the mail was captured completely."),
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
        out.record(record!(
            MAIL,
            time,
            protocol = protocol.name,
            command = command,
            user = user,
            folder = folder,
            reverse = direction == weir_wire::Direction::Reverse,
            date = head.get("date"),
            from = head.get("from"),
            to = list(head.addresses("to").unwrap_or_default()),
            cc = list(head.addresses("cc").unwrap_or_default()),
            reply_to = head.get("reply-to"),
            message_id = head.get("message-id"),
            in_reply_to = head.get("in-reply-to"),
            subject = head.text("subject"),
            user_agent = head.last_of(&["x-mailer", "user-agent", "x-user-agent"]),
            received = list(head.all("received")),
            attachments = list(self.mail.attachments.clone()),
            urls = list(self.mail.urls().to_vec()),
            files = list(self.names.iter().map(|name| name.clone().into_bytes()).collect()),
            bytes = self.mail.bytes,
            whole = is_whole && !self.mail.has_gap,
        ));
    }
}
