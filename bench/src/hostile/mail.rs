//! SMTP: commands, and mails whose headers, parts and encodings come in the smallest pieces.

use super::{Capture, Case, stream};
use weir_wire::Direction::{self, Forward, Reverse};

pub const CASES: &[Case] = &[
    Case { name: "smtp-commands", about: "commands of 4 letters", fill: |c| commands(c, b"NOOP\r\n") },
    Case { name: "smtp-unknown", about: "commands that do not exist", fill: |c| commands(c, b"a\n") },
    Case { name: "smtp-replies", about: "replies to nothing", fill: replies },
    Case {
        name: "smtp-recipients",
        about: "recipients of one mail",
        fill: |c| commands(c, b"RCPT TO:<a>\n"),
    },
    Case { name: "smtp-mails", about: "mails of one line", fill: mails },
    Case { name: "mime-headers", about: "headers of one letter", fill: |c| head(c, b"a:b\n") },
    Case { name: "mime-folded", about: "a header in lines of one letter", fill: |c| head(c, b" a\n") },
    Case { name: "mime-received", about: "a mail's path of many hosts", fill: |c| head(c, b"Received:a\n") },
    Case { name: "mime-words", about: "a subject of encoded words", fill: |c| head(c, b" =?a?q?=41?=\n") },
    Case { name: "mime-recipients", about: "addresses in a header", fill: |c| head(c, b" a@b,\n") },
    Case { name: "mime-nested", about: "multiparts in one another", fill: nested },
    Case { name: "mime-parts", about: "parts of one byte", fill: |c| body(c, b"--b\n\na\n") },
    Case {
        name: "mime-attachments",
        about: "attachments of one byte",
        fill: |c| body(c, b"--b\nContent-Type:a/b;name=c\n\na\n"),
    },
    Case { name: "mime-boundaries", about: "lines that begin as a delimiter", fill: |c| body(c, b"--\n") },
    Case {
        name: "mime-base64",
        about: "base64 in lines of one letter",
        fill: |c| coded(c, "base64", b"A\n"),
    },
    Case {
        name: "mime-quoted",
        about: "quoted-printable of soft breaks",
        fill: |c| coded(c, "quoted-printable", b"=\n"),
    },
    Case {
        name: "mime-escapes",
        about: "quoted-printable of escapes",
        fill: |c| coded(c, "quoted-printable", b"=41"),
    },
    Case { name: "mime-urls", about: "links of one letter", fill: |c| coded(c, "8bit", b"http://a ") },
    Case {
        name: "mime-html",
        about: "HTML of the beginnings of links",
        fill: |c| coded(c, "8bit", b"<a href="),
    },
];

const PORTS: [u16; 2] = [40_000, 25];
/// A session up to the content of a mail.
const TURNS: [(Direction, &[u8]); 9] = [
    (Reverse, b"220 a ESMTP\r\n"),
    (Forward, b"EHLO b\r\n"),
    (Reverse, b"250 a\r\n"),
    (Forward, b"MAIL FROM:<a@b>\r\n"),
    (Reverse, b"250 ok\r\n"),
    (Forward, b"RCPT TO:<c@d>\r\n"),
    (Reverse, b"250 ok\r\n"),
    (Forward, b"DATA\r\n"),
    (Reverse, b"354 go\r\n"),
];

fn commands(capture: &mut Capture, command: &[u8]) {
    stream(capture, PORTS, &TURNS[..5], Forward, |_| command.to_vec());
}

fn replies(capture: &mut Capture) {
    stream(capture, PORTS, &TURNS[..5], Reverse, |_| b"250\n".to_vec());
}

fn mails(capture: &mut Capture) {
    let mut flow = capture.tcp(PORTS);
    for (side, data) in &TURNS[..3] {
        flow.send(capture, *side, data);
    }
    capture.fill(|capture, _| {
        flow.send(capture, Forward, &b"MAIL FROM:<>\nRCPT TO:<a>\nDATA\n\n.\n".repeat(40));
        flow.send(capture, Reverse, &b"250\n250\n354\n250\n".repeat(40));
    });
}

/// A mail whose headers do not end.
fn head(capture: &mut Capture, line: &[u8]) {
    let turns = [&TURNS[..], &[(Forward, &b"Subject: a\r\n"[..])]].concat();
    stream(capture, PORTS, &turns, Forward, |_| line.to_vec());
}

/// A mail of parts that does not end.
fn body(capture: &mut Capture, unit: &[u8]) {
    let turns = [&TURNS[..], &[(Forward, &b"Content-Type: multipart/mixed; boundary=b\n\n"[..])]].concat();
    stream(capture, PORTS, &turns, Forward, |_| unit.to_vec());
}

fn coded(capture: &mut Capture, coding: &str, unit: &[u8]) {
    let head = format!("Content-Type: text/html\nContent-Transfer-Encoding: {coding}\n\n");
    let turns = [&TURNS[..], &[(Forward, head.as_bytes())]].concat();
    stream(capture, PORTS, &turns, Forward, |_| unit.to_vec());
}

fn nested(capture: &mut Capture) {
    let turns = [&TURNS[..], &[(Forward, &b"Content-Type:multipart/mixed;boundary=b\n\n"[..])]].concat();
    stream(capture, PORTS, &turns, Forward, |n| {
        let outer = if n == 0 { "b".to_owned() } else { format!("b{n}") };
        format!("--{outer}\nContent-Type:multipart/mixed;boundary=b{}\n\n", n + 1).into_bytes()
    });
}
