//! The validity of a certificate of TLS.

use super::row::{Group, Keyword, reads};
use crate::buffer::{RuleBuffer, Sides};
use crate::builder::{Builder, no_value};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::rule::Test;
use crate::value::Value;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const TLS: &[&str] = &["tls"];

/// Seconds since 1970 at which the validity begins.
static NOT_BEFORE: RuleBuffer =
    RuleBuffer::of("tls.cert_not_before", TLS, Sides::Both, "Beginning of a certificate's validity.")
        .multiple();

/// Seconds since 1970 at which the validity ends.
static NOT_AFTER: RuleBuffer =
    RuleBuffer::of("tls.cert_not_after", TLS, Sides::Both, "End of a certificate's validity.").multiple();

/// Whether the certificate was valid: 0 yes, 1 not any more, 2 not yet.
static VALIDITY: RuleBuffer =
    RuleBuffer::of("tls.cert_validity", TLS, Sides::Both, "Whether a certificate is valid.").multiple();

const VALID: u64 = 0;
const EXPIRED: u64 = 1;

pub(super) fn keywords() -> Vec<Keyword> {
    let keyword = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Protocol, arguments, help, accepted, refused, read)
    };
    vec![
        keyword(
            "tls_cert_notbefore",
            "[<|>]DATE|DATE<>DATE",
            "Beginning of a certificate's validity: 2015, 2015-10, ... 2015-10-22T23:59:59 (UTC).",
            &["tls_cert_notbefore:2015;", "tls_cert_notbefore:<2015-10-22T23:59:59;"],
            &["tls_cert_notbefore;", "tls_cert_notbefore:x;", "tls_cert_notbefore:2016<>2015;"],
            |builder, value| date(builder, value, &NOT_BEFORE),
        ),
        keyword(
            "tls_cert_notafter",
            "[<|>]DATE|DATE<>DATE",
            "End of a certificate's validity, in the form of tls_cert_notbefore.",
            &["tls_cert_notafter:>2015-10;", "tls_cert_notafter:2015-10-22<>2015-10-23T12;"],
            &["tls_cert_notafter;", "tls_cert_notafter:2015-13;"],
            |builder, value| date(builder, value, &NOT_AFTER),
        ),
        keyword(
            "tls_cert_expired",
            "",
            "The certificate's validity had ended when it was sent.",
            &["tls_cert_expired;"],
            &["tls_cert_expired:1;"],
            |builder, value| validity(builder, value, EXPIRED),
        ),
        keyword(
            "tls_cert_valid",
            "",
            "The certificate was sent within its validity.",
            &["tls_cert_valid;"],
            &["tls_cert_valid:1;"],
            |builder, value| validity(builder, value, VALID),
        ),
    ]
}

fn validity(builder: &mut Builder<'_>, value: Value<'_>, is: u64) -> Result<(), Fault> {
    no_value(value)?;
    builder.add_apart(&VALIDITY, Test::Number(NumberTest::Is(is)))
}

fn date(builder: &mut Builder<'_>, value: Value<'_>, buffer: &'static RuleBuffer) -> Result<(), Fault> {
    let value = value.unquoted().trimmed();
    let between = value.bytes.windows(2).position(|pair| pair == b"<>").filter(|at| *at > 0);
    let test = match between {
        Some(at) => {
            let (from, to) = (seconds(value.before(at))?, seconds(value.from(at + 2))?);
            if from > to {
                return Err(value.wrong(format!("the range `{}` ends before it begins", value.shown())));
            }
            // A range of numbers leaves its ends out, and before 1970 there is no number.
            match from.checked_sub(1) {
                Some(before) => NumberTest::Between(before, to + 1),
                None => NumberTest::AtMost(to),
            }
        }
        None => match (value.after("<"), value.after(">")) {
            (Some(date), _) => NumberTest::AtMost(seconds(date)?),
            (_, Some(date)) => NumberTest::AtLeast(seconds(date)?),
            _ => NumberTest::Is(seconds(value)?),
        },
    };
    builder.add_apart(buffer, Test::Number(test))
}

/// The first second of a date, since 1970. What is left out is the first of its kind.
fn seconds(value: Value<'_>) -> Result<u64, Fault> {
    const WHOLE: &str = "0000-01-01T00:00:00";
    let value = value.trimmed();
    let wrong =
        || value.wrong(format!("`{}` is not a date: 2015-10-22T23:59:59 or its beginning", value.shown()));
    let text = value.text()?.replacen(' ', "T", 1);
    let rest = WHOLE
        .get(text.len()..)
        .filter(|_| matches!(text.len(), 4 | 7 | 10 | 13 | 16 | 19))
        .ok_or_else(wrong)?;
    let date: DateTime = format!("{text}{rest}").parse().map_err(|_| wrong())?;
    let moment = Offset::UTC.to_timestamp(date).map_err(|_| wrong())?;
    u64::try_from(moment.as_second()).map_err(|_| wrong())
}
