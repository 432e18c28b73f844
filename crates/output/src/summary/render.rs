//! Layout of a summary.

use super::sections::{self, Section, Tone};
use super::{Facts, Style};
use super::{applications, calls, frames, wifi};
use crate::figures::{fit, left};

/// Maximum lines of a summary.
pub const MAX_LINES: usize = 20;
/// Minimum width of a summary in columns.
pub const MIN_WIDTH: usize = 60;
/// Columns of the labels.
const LABEL: usize = 10;
/// Maximum talkers, and the number below which suggested commands give way to talkers.
const TALKERS: usize = 5;
const MIN_TALKERS: usize = 3;

/// The summary: at most [`MAX_LINES`] lines, none longer than the style's width, each with its line break.
pub fn render(facts: &Facts, style: &Style) -> String {
    let width = style.width.max(MIN_WIDTH);
    let room = width - LABEL;
    let head = sections::inputs(facts, style, width);
    let mut traffic = sections::traffic(facts, room);
    let findings = sections::findings(facts, room);
    let mut hosts = sections::hosts(facts, room);
    let mut ports = sections::ports(facts, style, room);
    let mut names = applications::names(facts, room);
    let mut sites = applications::sites(facts, room);
    let mut web = applications::web(facts, room);
    let mut latency = applications::latency(facts, room);
    let mut calls = calls::calls(facts, room);
    let mut tunnels = sections::tunnels(facts, room);
    let mut unidentified = sections::unidentified(facts, room);
    let mut flows = sections::flows(facts, room);
    let mut wifi = wifi::wifi(facts, room);
    let mut not_ip = frames::frames(facts, room);
    let mut errors = sections::errors(facts, room);
    let mut notes = sections::notes(facts);
    let loss = sections::loss(facts, room);
    let fixed = [
        &traffic,
        &tunnels,
        &findings,
        &hosts,
        &ports,
        &names,
        &sites,
        &web,
        &latency,
        &calls,
        &unidentified,
        &flows,
        &wifi,
        &not_ip,
        &errors,
        &notes,
        &loss,
    ];
    let mut fixed = head.len() + fixed.iter().map(|section| section.lines.len()).sum::<usize>();
    // Errors and loss have priority over all other sections, and talkers and a suggestion over what protocols show.
    let kept = sections::talker_count(facts).min(MIN_TALKERS) + usize::from(style.next);
    for section in [&mut not_ip, &mut web, &mut latency, &mut sites, &mut names, &mut wifi, &mut calls] {
        if fixed + kept > MAX_LINES {
            fixed -= std::mem::take(&mut section.lines).len();
        }
    }
    for section in [
        &mut unidentified,
        &mut ports,
        &mut tunnels,
        &mut notes,
        &mut flows,
        &mut hosts,
        &mut errors,
        &mut traffic,
    ] {
        if fixed > MAX_LINES {
            fixed -= std::mem::take(&mut section.lines).len();
        }
    }
    let left_over = MAX_LINES.saturating_sub(fixed);
    let wanted = sections::talker_count(facts).min(TALKERS);
    let mut next = Section { label: "Next", lines: Vec::new() };
    for command in if style.next { sections::next(facts, room) } else { Vec::new() } {
        if wanted.min(MIN_TALKERS) + next.lines.len() + command.len() <= left_over {
            next.lines.extend(command.into_iter().map(|line| (line, Tone::Plain)));
        }
    }
    let talkers = sections::talkers(facts, style, room, wanted.min(left_over - next.lines.len()));

    let mut lines: Vec<String> =
        head.into_iter().map(|(text, tone)| painted(&fit(&text, width), tone, style)).collect();
    for section in [
        &traffic,
        &tunnels,
        &hosts,
        &talkers,
        &findings,
        &ports,
        &names,
        &sites,
        &web,
        &latency,
        &calls,
        &unidentified,
        &flows,
        &wifi,
        &not_ip,
        &errors,
        &notes,
        &loss,
        &next,
    ] {
        for (at, (text, tone)) in section.lines.iter().enumerate() {
            let label = left(if at == 0 { section.label } else { "" }, LABEL);
            let label = if style.colour && at == 0 { format!("\u{1b}[1;36m{label}\u{1b}[0m") } else { label };
            lines.push(format!("{label}{}", painted(&fit(text, room), *tone, style)));
        }
    }
    lines.truncate(MAX_LINES);
    lines.iter().fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

fn painted(text: &str, tone: Tone, style: &Style) -> String {
    match (style.colour, tone) {
        (false, _) | (_, Tone::Plain) => text.to_owned(),
        (true, Tone::Warning) => format!("\u{1b}[33m{text}\u{1b}[0m"),
        (true, Tone::Bad) => format!("\u{1b}[1;31m{text}\u{1b}[0m"),
    }
}
