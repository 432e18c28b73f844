//! The header of a message and the URLs in its text as rules see them.

use super::{Carrier, Head, Mail, without_scheme};
use crate::early::begin_transaction;
use crate::{Asked, Buffer, Out};

pub(crate) static FROM: Buffer = Buffer::whole("email.from", "From field of a mail.");
pub(crate) static TO: Buffer = Buffer::whole("email.to", "To field of a mail.");
pub(crate) static CC: Buffer = Buffer::whole("email.cc", "Cc field of a mail.");
pub(crate) static SUBJECT: Buffer = Buffer::whole("email.subject", "Subject field of a mail, as sent.");
pub(crate) static DATE: Buffer = Buffer::whole("email.date", "Date field of a mail.");
pub(crate) static MESSAGE_ID: Buffer = Buffer::whole("email.message_id", "Message-ID field of a mail.");
pub(crate) static X_MAILER: Buffer = Buffer::whole("email.x_mailer", "X-Mailer field of a mail.");
pub(crate) static RECEIVED: Buffer =
    Buffer::whole("email.received", "A Received field of a mail; each alone.");
pub(crate) static URL: Buffer = Buffer::whole(
    "email.url",
    "A URL in the text of a mail, in lower case and without its scheme; each alone.",
);

/// Buffers with the value of one field of the header.
static FIELDS: &[(&Buffer, &str)] = &[
    (&FROM, "from"),
    (&TO, "to"),
    (&CC, "cc"),
    (&SUBJECT, "subject"),
    (&DATE, "date"),
    (&MESSAGE_ID, "message-id"),
    (&X_MAILER, "x-mailer"),
];

/// Whether any buffer with fields of the header is asked for.
fn has_fields(asked: Asked) -> bool {
    asked.has(&RECEIVED) || FIELDS.iter().any(|(buffer, _)| asked.has(buffer))
}

/// Emits the fields of a complete header: as in Suricata without the first space of each folded line, and none that is empty.
pub(super) fn of_head(head: &Head, carrier: Carrier, out: &mut dyn Out) {
    let (asked, side) = (out.asked(), carrier.direction);
    begin_transaction(side, carrier.transaction, out);
    if !asked.has_buffers() || !has_fields(asked) {
        return;
    }
    for (buffer, name) in FIELDS.iter().filter(|(buffer, _)| asked.has(buffer)) {
        if let Some(value) = head.all_joined(name).last().filter(|value| !value.is_empty()) {
            out.buffer(buffer, side, value);
        }
    }
    if asked.has(&RECEIVED) {
        head.all_joined("received").iter().for_each(|value| out.buffer(&RECEIVED, side, value));
    }
    out.side_is_complete(side);
}

/// Emits the URLs of a complete message.
pub(super) fn of_text(mail: &Mail, carrier: Carrier, out: &mut dyn Out) {
    if mail.urls().is_empty() || !out.asked().has(&URL) {
        return;
    }
    let side = carrier.direction;
    mail.urls().iter().for_each(|url| out.buffer(&URL, side, without_scheme(url)));
    out.side_is_complete(side);
}
