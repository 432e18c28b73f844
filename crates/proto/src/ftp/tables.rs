//! The tables of FTP.

use crate::{Kind, Privacy, Table, field};

/// Suricata logs every command; Zeek logs commands that name files or data channels, with their result.
pub(super) static FTP: Table = Table {
    name: "ftp",
    help: "A command that names a file or a data channel, with what came of it.",
    zeek: "ftp",
    eve: "",
    fields: &[
        field("user", Kind::Text, "Who logged in.").zeek("user").privacy(Privacy::User),
        field("password", Kind::Text, "The password of a guest; <hidden> for that of others.")
            .zeek("password")
            .privacy(Privacy::Secret),
        field("command", Kind::Text, "The command, in capitals.").zeek("command"),
        field("argument", Kind::Text, "What followed it; of a file, its URL.")
            .zeek("arg")
            .privacy(Privacy::Url),
        field("mime_type", Kind::Word, "Type of the file by content.").zeek("mime_type"),
        field("file_size", Kind::Uint, "Size of the file as the server says it.").zeek("file_size"),
        field("reply_code", Kind::Uint, "Code of the last reply.").zeek("reply_code"),
        field("reply", Kind::Text, "Text of the last reply.").zeek("reply_msg").privacy(Privacy::Content),
        field("passive", Kind::Bool, "Whether the client opens the data channel.")
            .zeek("data_channel.passive"),
        field("data_initiator", Kind::Address, "Who opens the data channel.").zeek("data_channel.orig_h"),
        field("data_responder", Kind::Address, "Where to.").zeek("data_channel.resp_h"),
        field("data_port", Kind::Port, "To which port.").zeek("data_channel.resp_p"),
        field("file", Kind::Text, "The name of the file in records.").zeek("fuid"),
    ],
};

pub(super) static COMMANDS: Table = Table {
    name: "ftp_command",
    help: "A command with its replies, or the server's greeting.",
    zeek: "",
    eve: "ftp",
    fields: &[
        field("command", Kind::Text, "The command, in capitals.").eve("ftp.command"),
        field("argument", Kind::Text, "What followed it; of PASS only that of guests.")
            .eve("ftp.command_data")
            .privacy(Privacy::Content),
        field("command_truncated", Kind::Bool, "Whether it was longer than is kept.")
            .eve("ftp.command_truncated"),
        field("codes", Kind::List(&Kind::Text), "Codes of the replies.").eve("ftp.completion_code"),
        field("replies", Kind::List(&Kind::Text), "Lines of the replies.")
            .eve("ftp.reply")
            .privacy(Privacy::Content),
        field("reply_truncated", Kind::Bool, "Whether they were longer than is kept.")
            .eve("ftp.reply_truncated"),
        field("mode", Kind::Word, "active or passive, of a command that opens a data channel.")
            .eve("ftp.mode"),
        field("dynamic_port", Kind::Uint, "The port of the data channel.").eve("ftp.dynamic_port"),
        field("reply_received", Kind::Word, "Whether there was a reply: yes or no.")
            .eve("ftp.reply_received"),
        field("duration", Kind::Duration, "From the command to its last reply."),
    ],
};

pub(super) static DATA: Table = Table {
    name: "ftp_data",
    help: "What went over a data channel.",
    zeek: "",
    eve: "ftp_data",
    fields: &[
        field("command", Kind::Text, "The command that it is for.").eve("ftp_data.command"),
        field("filename", Kind::Text, "The file that the command names.")
            .eve("ftp_data.filename")
            .privacy(Privacy::Content),
        field("bytes", Kind::Uint, "Bytes that were sent."),
        field("file", Kind::Text, "The name of the file in records."),
        field("mime_type", Kind::Word, "Its type by content."),
    ],
};
