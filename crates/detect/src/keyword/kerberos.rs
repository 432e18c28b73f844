//! The encryption of Kerberos.

use super::row::{Group, Keyword, reads};
use crate::buffer::{RuleBuffer, Sides};
use crate::builder::{Builder, no_value};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::ranges::Ranges;
use crate::rule::Test;
use crate::value::Value;

/// Whether the encryption of a reply is deprecated.
static WEAK: RuleBuffer = RuleBuffer::of(
    "krb5.weak_encryption",
    &["kerberos"],
    Sides::ToClient,
    "Whether the encryption of a reply is weak.",
)
.multiple();

/// The encryption type of the ticket in a reply. A type below zero is the number with its 16 bits.
static TICKET: RuleBuffer = RuleBuffer::of(
    "krb5.ticket_encryption",
    &["kerberos"],
    Sides::ToClient,
    "Encryption type of the ticket in a reply.",
)
.multiple();

/// Encryption types (IANA, "Kerberos Encryption Type Numbers").
const TYPES: &[(&str, u16)] = &[
    ("des-cbc-crc", 1),
    ("des-cbc-md4", 2),
    ("des-cbc-md5", 3),
    ("des3-cbc-md5", 5),
    ("des3-cbc-sha1", 7),
    ("des3-cbc-sha1-kd", 16),
    ("aes128-cts-hmac-sha1-96", 17),
    ("aes256-cts-hmac-sha1-96", 18),
    ("aes128-cts-hmac-sha256-128", 19),
    ("aes256-cts-hmac-sha384-192", 20),
    ("rc4-hmac", 23),
    ("rc4-hmac-exp", 24),
    ("camellia128-cts-cmac", 25),
    ("camellia256-cts-cmac", 26),
];

/// Deprecated encryption types (RFC 6649, RFC 8429).
const DEPRECATED: &[(u16, u16)] = &[(1, 7), (16, 16), (23, 24)];

pub(super) fn keywords() -> Vec<Keyword> {
    vec![
        reads(
            "krb5.weak_encryption",
            Group::Protocol,
            "",
            "The encryption type of a reply is deprecated.",
            &["krb5.weak_encryption;"],
            &["krb5.weak_encryption:1;"],
            weak,
        ),
        reads(
            "krb5.ticket_encryption",
            Group::Protocol,
            "[!]weak|TYPE[,...]",
            "Encryption type of the ticket in a reply: any of these, by name or number.",
            &[
                "krb5.ticket_encryption:weak;",
                "krb5.ticket_encryption:!weak;",
                "krb5.ticket_encryption:rc4-hmac,24,-135;",
            ],
            &[
                "krb5.ticket_encryption;",
                "krb5.ticket_encryption:x;",
                "krb5.ticket_encryption:32768;",
                "krb5.ticket_encryption:23,,24;",
            ],
            ticket,
        ),
    ]
}

fn weak(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.add_apart(&WEAK, Test::Number(NumberTest::Is(1)))
}

fn ticket(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (is_negated, value) = value.unquoted().negated();
    let ranges: Vec<Vec<(u16, u16)>> = value.parts(b',').map(types).collect::<Result<_, _>>()?;
    let types = Ranges::of(ranges.concat());
    builder.add_apart(&TICKET, Test::AnyOf(if is_negated { types.complement() } else { types }))
}

/// The types that a word names.
fn types(value: Value<'_>) -> Result<Vec<(u16, u16)>, Fault> {
    if value.bytes == b"weak" {
        return Ok(DEPRECATED.to_vec());
    }
    let named = TYPES.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(value.bytes));
    let number = match named {
        Some((_, number)) => *number,
        None => value.number("an encryption type", i16::MIN.into(), i16::MAX.into())? as i16 as u16,
    };
    Ok(vec![(number, number)])
}
