//! `weir man`: manual pages in troff, made from the command line and from the registries of protocols and functions.

use crate::cli::{Cli, ManPage};
use crate::exit::{Exit, complain};
use clap::CommandFactory;
use std::io::{self, Write};
use weir_api::{FunctionCall, Level};
use weir_engine::{Argument, FUNCTIONS, FunctionSpec, RECORD_FUNCTIONS, SELECTORS, Selector};
use weir_filter::fields::FieldKind;
use weir_proto::{Buffer, Field, Kind, PROTOCOLS, Privacy, SHARED_BUFFERS, SHARED_TABLES, Table, Transport};
use weir_store::fields::FLOW_FIELDS;

/// Prints a manual page to standard output.
pub fn print(page: ManPage) -> Exit {
    let mut text = Vec::new();
    let made = match page {
        ManPage::Weir => program(&mut text),
        ManPage::Fields => {
            text = fields().into_bytes();
            Ok(())
        }
        ManPage::Functions => {
            let measures: Vec<&FunctionSpec> = FUNCTIONS.iter().chain(RECORD_FUNCTIONS).copied().collect();
            text = functions(&measures, SELECTORS).into_bytes();
            Ok(())
        }
    };
    match made.and_then(|()| io::stdout().write_all(&text)) {
        Ok(()) => Exit::Good,
        Err(error) => complain(Exit::Output, error),
    }
}

/// weir(1): every option and subcommand.
///
/// # Errors
///
/// Those of the writer.
fn program(page: &mut Vec<u8>) -> io::Result<()> {
    // `-h` leaves out options to be short, and clap_mangen would leave out their help.
    let mut command = Cli::command().mut_args(|argument| argument.hide_short_help(false));
    command.build();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    // The subcommands have no pages, so that they are no references to pages.
    page.extend_from_slice(b".SH SUBCOMMANDS\n.PP\nThe options of each: weir COMMAND \\-\\-help.\n");
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        let name = escaped(subcommand.get_name());
        page.extend_from_slice(format!(".TP\n\\fBweir {name}\\fR\n{}\n", escaped(&about)).as_bytes());
    }
    man.render_extra_section(page)?;
    man.render_version_section(page)?;
    page.extend_from_slice(b".SH SEE ALSO\n.BR weir-fields (7),\n.BR weir-functions (7)\n");
    Ok(())
}

/// weir-functions(7): every function, its arguments, and the columns of its reading.
pub fn functions(measures: &[&FunctionSpec], selectors: &[&Selector]) -> String {
    let mut page = String::from(
        ".TH weir-functions 7\n.SH NAME\nweir-functions \\- functions of subscriptions and their results\n",
    );
    page += ".SH DESCRIPTION\n.PP\nA subscription passes what it matches through functions, each of which reports a reading every \
             interval. Every log, the counters, the store and the pages have the columns of readings under the names below.\n";
    for spec in measures {
        page += &section_of(spec.name, spec.help, spec.arguments);
        page += &levels_of(spec.levels);
        page += &columns_of(spec);
    }
    for selector in selectors {
        page += &section_of(selector.name, selector.help, selector.arguments);
        page += &levels_of(selector.levels);
        page += ".PP\nIt selects, and has no reading.\n";
    }
    page += ".SH SEE ALSO\n.BR weir (1)\n";
    page
}

/// The name of a function, its meaning and its arguments.
fn section_of(name: &str, help: &str, arguments: &[Argument]) -> String {
    let mut section = format!(".SH {}\n{}\n", escaped(&name.to_uppercase()), escaped(help));
    for argument in arguments {
        let default = argument
            .default
            .filter(|default| !default.is_empty())
            .map(|default| format!(" (default {default})"))
            .unwrap_or_default();
        section +=
            &format!(".TP\n.B {}\n{}{}\n", escaped(argument.name), escaped(argument.help), escaped(&default));
    }
    section
}

/// The levels that a function can be used at.
fn levels_of(levels: &[Level]) -> String {
    let names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
    format!(".PP\nLevels: {}.\n", names.join(", "))
}

/// The columns of a function's reading: those of an empty one.
fn columns_of(spec: &FunctionSpec) -> String {
    let required = || spec.arguments.iter().filter(|argument| argument.default.is_none());
    // Arguments without a default are a number or a network.
    let built = ["1", "10.0.0.0/8"].into_iter().find_map(|value| {
        let call =
            required().fold(FunctionCall::new(spec.name), |call, argument| call.with(argument.name, value));
        spec.call(&call, 0_u64).ok()
    });
    let Some(mut function) = built else { return String::new() };
    let reading = function.take();
    let mut text = ".SS Columns\n".to_owned();
    for column in reading.cells().columns.iter() {
        let unit =
            if column.unit.is_empty() { String::new() } else { format!("({})\n", escaped(&column.unit)) };
        text += &format!(".TP\n.B {}\n{}\n{unit}", escaped(&column.name), escaped(&column.help));
    }
    text
}

/// weir-fields(7): every protocol, table and field.
fn fields() -> String {
    let mut page =
        String::from(".TH weir-fields 7\n.SH NAME\nweir-fields \\- tables of records and their fields\n");
    page += ".SH DESCRIPTION\n";
    for text in [
        "A record is one row of a table: a transaction, a message or a file that a parser found in a flow. Logs, the store, \
         the pages and expressions have the tables and fields under the names below. In every log the columns of the flow \
         (time, identifier, addresses, ports) precede the fields.",
        "For each field follow its kind, its column in Zeek's log and its key in Suricata's EVE where these have it, and what \
         it contains about a person or host, which decides what an anonymiser does with it.",
    ] {
        page += &format!(".PP\n{}\n", escaped(text));
    }
    page += ".SH TABLES OF MANY PROTOCOLS\n";
    for table in SHARED_TABLES {
        page += &section(table);
    }
    page += &buffers(SHARED_BUFFERS);
    for protocol in PROTOCOLS {
        page += &format!(".SH {}\n{}\n", escaped(&protocol.name.to_uppercase()), escaped(protocol.help));
        let transport = match protocol.transport {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
            Transport::Both => "TCP and UDP",
        };
        page += &format!("Over {transport}, {}.\n", on(protocol.ports));
        if protocol.tables.is_empty() {
            page += "It has no table of its own: what is found in it is in the tables of many protocols.\n";
        }
        page += &buffers(protocol.buffers);
        for table in protocol.tables {
            page += &section(table);
        }
    }
    page += &flow_section();
    page += ".SH SEE ALSO\n.BR weir (1)\n";
    page
}

/// The ports of a protocol, in words.
fn on(ports: &[u16]) -> String {
    let numbers: Vec<String> = ports.iter().map(u16::to_string).collect();
    match numbers.as_slice() {
        [] => "on any port".to_owned(),
        [port] => format!("usually on port {port}; it is identified on other ports, too"),
        [ports @ .., last] => {
            format!("usually on ports {} and {last}; it is identified on other ports, too", ports.join(", "))
        }
    }
}

/// The buffers of a protocol that `search` takes.
fn buffers(buffers: &[&Buffer]) -> String {
    let mut text = String::new();
    for buffer in buffers.iter().filter(|buffer| !buffer.is_stream && !buffer.is_number) {
        if text.is_empty() {
            text += ".SS Buffers\nThe function search finds texts in them before a record is complete.\n";
        }
        text += &format!(".TP\n.B {}\n{}\n", escaped(buffer.name), escaped(buffer.help));
    }
    text
}

/// The fields of flows, which expressions over stored flows and records test as `flow.NAME`.
fn flow_section() -> String {
    let mut text = String::from(
        ".SH FIELDS OF FLOWS\nQueries and expressions over a store name these fields as flow.NAME.\n",
    );
    for field in FLOW_FIELDS {
        let kind = match field.kind {
            FieldKind::Bool => "yes or no",
            FieldKind::Number => "number",
            FieldKind::Duration => "length of time",
            FieldKind::Time => "point of time",
            FieldKind::Text => "text",
            FieldKind::Address => "address",
        };
        text += &format!(".TP\n.B {}\n{}\n({kind})\n", escaped(field.name), escaped(field.help));
    }
    text
}

fn section(table: &Table) -> String {
    let mut text = format!(".SS Table {}\n{}\n", escaped(table.name), escaped(table.help));
    if !table.zeek.is_empty() {
        text += &format!("Zeek writes these rows to {}.log.\n", escaped(table.zeek));
    }
    if !table.eve.is_empty() {
        text += &format!("Suricata's event type is {}.\n", escaped(table.eve));
    }
    for field in table.fields {
        text += &entry(field);
    }
    text
}

fn entry(field: &Field) -> String {
    let mut facts = vec![kind(&field.kind)];
    if !field.zeek.is_empty() {
        facts.push(format!("Zeek: {}", field.zeek));
    }
    if !field.eve.is_empty() {
        facts.push(format!("EVE: {}", field.eve));
    }
    if let Some(contains) = contains(field.privacy) {
        facts.push(format!("contains {contains}"));
    }
    let mut text = format!(
        ".TP\n.B {}\n{}\n({})\n",
        escaped(field.name),
        escaped(field.help),
        escaped(&facts.join("; "))
    );
    if let Kind::Rows(fields) = field.kind {
        text += ".RS\n";
        for field in fields {
            text += &entry(field);
        }
        text += ".RE\n";
    }
    text
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "yes or no".to_owned(),
        Kind::Uint => "number".to_owned(),
        Kind::Int => "number, also negative".to_owned(),
        Kind::Real => "number with a fraction".to_owned(),
        Kind::Time => "point of time".to_owned(),
        Kind::Duration => "length of time".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Word => "one of a fixed set of words".to_owned(),
        Kind::Address => "address".to_owned(),
        Kind::Port => "port".to_owned(),
        Kind::List(of) => format!("list, each: {}", self::kind(of)),
        Kind::Set(of) => format!("set, each: {}", self::kind(of)),
        Kind::Rows(_) => "rows with the following fields".to_owned(),
    }
}

/// The data about a person or host that a field contains; `None` for a plain field.
fn contains(privacy: Privacy) -> Option<&'static str> {
    match privacy {
        Privacy::Plain => None,
        Privacy::Name => Some("a host or domain name"),
        Privacy::Address => Some("an address"),
        Privacy::Url => Some("a URL or path"),
        Privacy::User => Some("the name of a user"),
        Privacy::Mail => Some("mail addresses"),
        Privacy::Secret => Some("a secret"),
        Privacy::Content => Some("content"),
        Privacy::Fingerprint => Some("a fingerprint"),
    }
}

/// Escapes a text for troff, so that no line of it is a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_field_is_in_the_page() {
        let page = fields();
        // The section of each table is searched separately, so that a field with an equal name elsewhere does not
        // count.
        let parts: Vec<&str> = page.split(".SS Table ").skip(1).collect();
        let tables: Vec<&Table> = weir_proto::tables().collect();
        assert_eq!(parts.len(), tables.len());
        for (part, table) in parts.iter().zip(&tables) {
            assert_eq!(part.lines().next(), Some(table.name));
            for field in table.fields {
                let entry = format!(".B {}\n{}\n", field.name, escaped(field.help));
                assert!(part.contains(&entry), "{}.{}", table.name, field.name);
                for name in [field.zeek, field.eve].into_iter().filter(|name| !name.is_empty()) {
                    assert!(part.contains(&escaped(name)), "{}.{}: {name}", table.name, field.name);
                }
            }
        }
        for protocol in PROTOCOLS {
            assert!(page.contains(&escaped(protocol.help)), "{}", protocol.name);
            for buffer in protocol.buffers {
                assert_eq!(
                    page.contains(&format!(".B {}\n", buffer.name)),
                    !buffer.is_stream && !buffer.is_number,
                    "{}",
                    buffer.name
                );
            }
        }
    }

    #[test]
    fn every_option_has_its_help_in_the_page() {
        let mut page = Vec::new();
        program(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let entries: Vec<&str> = page.split(".TP\n").collect();
        let command = Cli::command();
        let named = command.get_arguments().filter_map(|argument| Some((argument, argument.get_long()?)));
        for (argument, name) in named.filter(|(argument, _)| !argument.is_hide_set()) {
            let heading = format!("\\fB{}\\fR", escaped(&format!("--{name}")));
            let entry =
                entries.iter().find(|entry| entry.lines().next().unwrap().contains(&heading)).unwrap();
            let help = argument.get_help().unwrap().to_string();
            let first = escaped(help.split([' ', '\n']).next().unwrap());
            assert!(entry.lines().nth(1).unwrap().starts_with(&first), "--{name}: {entry}");
        }
        assert!(command.get_arguments().any(clap::Arg::is_hide_short_help_set));
    }

    #[test]
    fn no_text_of_a_field_is_a_troff_request() {
        const REQUESTS: [&str; 10] = [".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".RS", ".RE", ".br"];
        for line in fields().lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(REQUESTS.contains(&line.split(' ').next().unwrap_or_default()), "{line}");
        }
        assert_eq!(escaped(".x-y\\z"), "\\&.x\\-y\\ez");
    }
}
