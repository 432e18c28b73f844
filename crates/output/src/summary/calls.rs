//! The section of calls: who called whom, the outcome, and how the media arrived.

use super::Facts;
use super::sections::{Section, Tone};
use crate::figures::{count, counted, duration, fit, loss_percent, printable, width};
use std::cmp::Reverse;
use weir_api::{Call, Datum, Reading, TableRow, builtin};

/// Maximum calls that are shown.
const CALLS: usize = 3;
/// Minimum columns of the name of a party.
const PARTY: usize = 12;
/// Maximum columns of the identifier of a call whose parties are not known.
const ID: usize = 24;

/// The calls with the most media, one in a line, or in two where its media have no room beside it.
pub fn calls(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("CALLS");
    let Some(Reading::Table(table)) = facts.total.reading_of(builtin::CALLS) else { return section };
    let rows = table.rows.by_key().into_iter().filter_map(|row| Some((id(row), Call::of(row)?)));
    let (mut known, others): (Vec<_>, Vec<_>) = rows.filter(is_shown).partition(|(id, _)| id.is_some());
    known.sort_by_key(|(id, call)| (Reverse(call.packets), call.begun, *id));
    for (id, call) in known.iter().take(CALLS) {
        let (who, media) = (line(id.unwrap_or_default(), call, room), media(call));
        match media {
            Some(media) if width(&who) + 3 + width(&media) <= room => {
                section.line(format!("{who}   {media}"), Tone::Plain);
            }
            media => {
                section.line(who, Tone::Plain);
                media.into_iter().for_each(|media| section.line(format!("  {media}"), Tone::Plain));
            }
        }
    }
    let more = known.len().saturating_sub(CALLS) as u64;
    let mut rest = Vec::new();
    if more > 0 || table.absent > 0 {
        let about = if table.absent > 0 { "more than " } else { "" };
        let and = if known.is_empty() { "" } else { "and " };
        rest.push(format!("{and}{about}{}", counted(more, "more call")));
    }
    for (_, call) in &others {
        rest.extend(media(call).map(|media| format!("of no call: {media}")));
    }
    if !rest.is_empty() {
        section.line(rest.join("   "), Tone::Plain);
    }
    section
}

/// The identifier of a call; `None` of the row of streams without one.
fn id(row: &TableRow) -> Option<&str> {
    match row.key.as_slice() {
        [Datum::Text(id)] => Some(id),
        _ => None,
    }
}

/// Whether there is something to show: a call that was begun, or media. The BYE of a call that began before the capture shows
/// neither party's role.
fn is_shown((_, call): &(Option<&str>, Call)) -> bool {
    call.begun.is_some() || call.streams > 0
}

/// A call without its media, in `room` columns: `alice@example.org -> bob@example.com  200, 5.800 s`.
fn line(id: &str, call: &Call, room: usize) -> String {
    let status = match &call.status {
        Some((_, Datum::Number(status))) => status.to_string(),
        _ if call.begun.is_none() => "begun before".to_owned(),
        _ => "not answered".to_owned(),
    };
    let time = match (call.length(), call.begun.zip(call.ended)) {
        (Some(length), _) if call.is_over() => format!(", {}", duration(length)),
        (Some(length), _) => format!(", open after {}", duration(length)),
        (None, _) if call.answered.is_some() => ", open".to_owned(),
        (None, Some((begun, ended))) => format!(" after {}", duration(ended.saturating_sub(begun))),
        (None, None) => String::new(),
    };
    let outcome = format!("  {status}{time}");
    let room = room.saturating_sub(width(&outcome));
    let who = match (&call.caller, &call.callee) {
        (None, None) => format!("call {}", fit(&printable(id), ID)),
        (caller, callee) => {
            let (from, to) = (party(caller.as_ref()), party(callee.as_ref()));
            // A short name leaves its room to the other.
            let both = room.saturating_sub(" -> ".len());
            let each = |other: &str| both.saturating_sub(width(other)).max(both / 2).max(PARTY);
            format!("{} -> {}", fit(&from, each(&to)), fit(&to, each(&from)))
        }
    };
    format!("{who}{outcome}")
}

fn party(seen: Option<&(u64, Datum)>) -> String {
    match seen {
        Some((_, Datum::Text(name))) => printable(name),
        _ => "?".to_owned(),
    }
}

/// The media of a call: `2 streams, lost 3 of 1,200 (0.25%), jitter 2.10 ms`.
fn media(call: &Call) -> Option<String> {
    if call.streams == 0 {
        return None;
    }
    let sent = call.packets + call.lost;
    let lost = match call.lost {
        0 => "lost 0".to_owned(),
        lost => {
            let share = loss_percent(lost as f64 * 100.0 / sent as f64);
            format!("lost {} of {} ({share})", count(lost), count(sent))
        }
    };
    let jitter =
        call.jitter.map(|jitter| format!(", jitter {:.2} ms", jitter as f64 / 1e6)).unwrap_or_default();
    Some(format!("{}, {lost}{jitter}", counted(call.streams, "stream")))
}
