//! The tables of FTP.

use crate::{Kind, Privacy, Table, field};

/// Suricata logs every command; Zeek logs commands that name files or data channels, with their result.
pub(super) static FTP: Table = Table {
    name: "ftp",
    help: "A command that names a file or a data channel, with its result.",
    zeek: "ftp",
    eve: "",
    fields: &[
        field("user", Kind::Text, "User name that the client logged in with (USER).")
            .zeek("user")
            .privacy(Privacy::User),
        field("password", Kind::Text, "Password of an anonymous user (PASS); <hidden> for other users.")
            .zeek("password")
            .privacy(Privacy::Secret),
        field("command", Kind::Text, "Command of the client, in capitals.").zeek("command"),
        field("argument", Kind::Text, "Argument of the command; for a file, its URL.")
            .zeek("arg")
            .privacy(Privacy::Url),
        field("mime_type", Kind::Word, "Media type of the file, determined from the content.")
            .zeek("mime_type"),
        field("file_size", Kind::Uint, "Size of the file in bytes, from the server's reply.")
            .zeek("file_size"),
        field("reply_code", Kind::Uint, "Code of the last reply.").zeek("reply_code"),
        field("reply", Kind::Text, "Text of the last reply.").zeek("reply_msg").privacy(Privacy::Content),
        field("passive", Kind::Bool, "Whether the client opens the data channel (passive mode).")
            .zeek("data_channel.passive"),
        field("data_initiator", Kind::Address, "Address of the host that opens the data channel.")
            .zeek("data_channel.orig_h"),
        field("data_responder", Kind::Address, "Address that the data channel is opened to.")
            .zeek("data_channel.resp_h"),
        field("data_port", Kind::Port, "Port that the data channel is opened to.")
            .zeek("data_channel.resp_p"),
        field("file", Kind::Text, "Identifier of the file in records (Zeek's fuid).").zeek("fuid"),
    ],
};

pub(super) static COMMANDS: Table = Table {
    name: "ftp_command",
    help: "A command with its replies, or the server's greeting.",
    zeek: "",
    eve: "ftp",
    fields: &[
        field("command", Kind::Text, "Command of the client, in capitals.").eve("ftp.command"),
        field("argument", Kind::Text, "Argument of the command; for PASS, only if the user is anonymous.")
            .eve("ftp.command_data")
            .privacy(Privacy::Content),
        field(
            "command_truncated",
            Kind::Bool,
            "Whether the command was longer than the limit and was truncated.",
        )
        .eve("ftp.command_truncated"),
        field("codes", Kind::List(&Kind::Text), "Codes of the replies.").eve("ftp.completion_code"),
        field("replies", Kind::List(&Kind::Text), "Lines of the replies.")
            .eve("ftp.reply")
            .privacy(Privacy::Content),
        field(
            "reply_truncated",
            Kind::Bool,
            "Whether the replies were longer than the limit and were truncated.",
        )
        .eve("ftp.reply_truncated"),
        field("mode", Kind::Word, "Mode of the data channel, active or passive, for commands that open one.")
            .eve("ftp.mode"),
        field("dynamic_port", Kind::Uint, "Port of the data channel.").eve("ftp.dynamic_port"),
        field("reply_received", Kind::Word, "Whether the server replied: yes or no.")
            .eve("ftp.reply_received"),
        field("duration", Kind::Duration, "Time from the command to its last reply, in seconds."),
        field("transaction", Kind::Uint, "Number of the row among those of the flow, from 0.").eve("tx_id"),
    ],
};

pub(super) static DATA: Table = Table {
    name: "ftp_data",
    help: "The content of a data channel.",
    zeek: "",
    eve: "ftp_data",
    fields: &[
        field("command", Kind::Text, "Command that uses the data channel.").eve("ftp_data.command"),
        field("filename", Kind::Text, "File name in the command.")
            .eve("ftp_data.filename")
            .privacy(Privacy::Content),
        field("bytes", Kind::Uint, "Bytes that were transferred."),
        field("file", Kind::Text, "Identifier of the file in records (Zeek's fuid)."),
        field("mime_type", Kind::Word, "Media type, determined from the content."),
    ],
};
