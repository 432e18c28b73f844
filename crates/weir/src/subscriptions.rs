//! The built-in subscriptions, on which the summary, the live screen and the pages depend.

use crate::carve::Limits;
use crate::cli;
use crate::memory::{FULL_LISTS, list_rows};
use crate::requested::WriteCalls;
use crate::syslog;
use std::path::PathBuf;
use std::sync::Arc;
use weir_api::{FunctionCall, Level, Owner, Subscription, SubscriptionId, SubscriptionSpec, builtin};
use weir_output::{Log, metrics};
use weir_proto::Hashes;

/// The subscriptions of the summary; `memory` is the memory limit in bytes, by which the lists are sized.
pub fn summary(memory: usize) -> Vec<Subscription> {
    let top = |by: &str, rows: usize| top(by).with("rows", list_rows(memory, rows));
    let mut subscriptions = built_in([
        all("talkers", top("talker", 4096)),
        all("services", top("service", 8192)),
        all("sources", top("source", 8192)),
        all("destinations", top("destination", 8192)),
        all("flows", top("flow", 4096)),
        all("protocols", top("protocol", 256)),
        all("frames", FunctionCall::new("frames").with("rows", list_rows(memory, 1024))),
        all("rate", FunctionCall::new("rate")),
        SubscriptionSpec { level: Level::Flow, ..all("scans", FunctionCall::new("scans")) },
    ]);
    let of_link = |function| FunctionCall::new(function).with("rows", share(memory, 256, 16));
    subscriptions.extend(built_in([
        of_summary("packets without IP", Level::Packet, vec![of_link("nonip")]),
        of_summary("tunnels", Level::Packet, vec![of_link("tunnels")]),
        of_summary("connection states", Level::Flow, vec![FunctionCall::new("states")]),
    ]));
    if memory >= FULL_SUMMARY {
        subscriptions.extend(built_in(["wifi", "arp"].map(|name| all(name, of_link(name)))));
    }
    subscriptions
}

/// Number of rows of a list that has `most` with full memory, and never less than `min`.
fn share(memory: usize, most: usize, min: usize) -> usize {
    (most * memory.min(FULL_LISTS) / FULL_LISTS).max(min)
}

/// The memory limit in bytes from which a run has [`applications`], the lists of stations and Ourmon's lists of hosts: with less,
/// packets need all of it.
pub const FULL_SUMMARY: usize = 64 << 20;

/// The subscriptions to what the protocols of flows show: names, sites, versions, programs, states, latency and calls.
/// `memory` is the memory limit in bytes, by which the lists are sized.
pub fn applications(memory: usize) -> Vec<Subscription> {
    let share = |rows: usize, min: usize| share(memory, rows, min);
    let of_records = |name: &str, functions| SubscriptionSpec {
        level: Level::Record,
        ..SubscriptionSpec::new(name, "", functions)
    };
    let list =
        |name: &str, by: &str, rows: usize| of_records(name, vec![top(by).with("rows", share(rows, 16))]);
    let quantiles = |of: &str, by: &str| {
        FunctionCall::new("quantiles").with("of", of).with("by", by).with("rows", share(128, 4))
    };
    let latency = ["stream.first_byte", "stream.handshake"].map(|of| quantiles(of, "destination,port"));
    let names = FunctionCall::new("distinct").with("of", "dns.query");
    let domains = [names.clone().with("by", "domain").with("rows", share(64, 4)), names];
    built_in([
        list("names", "dns.query", 1024),
        list("sites", "site", 1024),
        list("tls versions", "tls.version", 32),
        list("user agents", "http.user_agent", 256),
        list("status codes", "http.status_code", 64),
        of_records("latency", latency.into()),
        of_records("domains", domains.into()),
        of_records("calls", vec![FunctionCall::new("calls").with("rows", share(256, 16))]),
    ])
}

/// The subscriptions that name services and hosts: the protocols of flows, by which the summary, the live screen and the pages name
/// services; and the names that clients resolved, which rows of flows and the summary show. `memory` is the memory limit in
/// bytes, by which the lists are sized.
pub fn of_names(memory: usize) -> Vec<Subscription> {
    // With little memory, packets need it.
    let rows = |most: usize| if memory < FULL_SUMMARY { 32 } else { share(memory, most, 32) };
    let applications =
        |by: &str, most: usize| FunctionCall::new("applications").with("by", by).with("rows", rows(most));
    let functions = vec![applications("port", 512), applications("server", 2048)];
    let mut subscriptions = built_in([of_summary("applications", Level::Flow, functions)]);
    subscriptions.extend(host_names());
    subscriptions
}

/// Minimum bytes of memory of a run that finds floods: with less, lists that a configuration asks for need all of it.
pub const FLOODS: usize = 256 << 20;

/// The subscription in which floods are found. Its reading is for their judge alone.
pub fn floods() -> Vec<Subscription> {
    let spec = SubscriptionSpec::new("flooded hosts", "", vec![FunctionCall::new("flooded")]);
    built_in([SubscriptionSpec { outputs: Some(Vec::new()), ..spec }])
}

/// The subscription to the names that clients resolved. Its reading is of no use.
fn host_names() -> Vec<Subscription> {
    // Other answers have no addresses.
    let with_addresses = "dns.answers and (dns.type = 1 or dns.type = 28)";
    let functions = vec![FunctionCall::new("hostnames")];
    let spec = of_summary("host names", Level::Record, functions);
    built_in([SubscriptionSpec { expression: with_addresses.to_owned(), ..spec }])
}

/// The subscriptions of a report: those of the summary, all records, and each measurement.
pub fn of_report() -> Vec<Subscription> {
    let specs = [
        SubscriptionSpec::delivering("records", Level::Record, vec![FunctionCall::new("rows")]),
        SubscriptionSpec::delivering(
            "measurements",
            Level::Flow,
            vec![FunctionCall::new("measure").with("details", "yes")],
        ),
    ];
    let mut subscriptions = summary(FULL_LISTS);
    subscriptions.extend(numbered(specs));
    subscriptions
}

/// The subscription of a pass in which rules look at flows, and nothing else happens.
pub fn of_rules() -> Vec<Subscription> {
    numbered([rules()]).collect()
}

/// The subscription of rules.
fn rules() -> SubscriptionSpec {
    SubscriptionSpec::delivering("--rules", Level::Record, vec![FunctionCall::new("rules")])
}

/// Subscriptions of the live screen only.
pub fn screen() -> Vec<Subscription> {
    built_in(["cast", "size", "ipproto"].map(|name| all(name, FunctionCall::new(name))))
}

/// Subscriptions of the pages only: distinct counts.
pub fn pages() -> Vec<Subscription> {
    let distinct = |of: &str| all(of, FunctionCall::new("distinct").with("of", of));
    built_in(["hosts", "pairs", "ports"].map(distinct))
}

/// The subscriptions for mon.lite if no configuration has any that counts: Ourmon's fixed filters and lists of flows and ports.
pub fn ourmon(memory: usize) -> Vec<Subscription> {
    let list = |name: &str, expression: &str, by: &str| {
        let top = top(by).with("show", 20).with("rows", list_rows(memory, 8192));
        SubscriptionSpec::new(name, expression, vec![top])
    };
    let mut subscriptions = screen();
    subscriptions.extend(built_in([
        list("topn_ip", "", "flow"),
        list("topn_tcp", "tcp", "flow"),
        list("topn_udp", "udp", "flow"),
        list("topn_icmp", "icmp or icmp6", "flow"),
        list("topn_port_tcp", "tcp", "port"),
        list("topn_port_udp", "udp", "port"),
    ]));
    if memory >= FULL_SUMMARY {
        let hosts = |name: &str, function: &str| {
            let function = FunctionCall::new(function).with("show", 20).with("rows", share(memory, 1024, 16));
            SubscriptionSpec::new(name, "", vec![function])
        };
        subscriptions.extend(built_in([
            hosts("topn_syn", "syn"),
            hosts("topn_icmperror", "icmperror"),
            hosts("topn_udperror", "udp"),
        ]));
    }
    subscriptions
}

/// The packet files of a run, and the directory of all files with its limits.
type Files<'r> = (&'r WriteCalls, Option<&'r (PathBuf, Limits)>);

/// The subscriptions of the options of a run: packet files, extracted files, measurements, the names of services, and the
/// logs that the command line names. `is_read` is whether a log or the configuration asks for rows or payload; `has_rules`, whether rules look at flows; `ports` is the number
/// of ports of unidentified flows that are counted separately.
pub fn of_options(
    options: &cli::RunOptions,
    (packets, extracted): Files<'_>,
    (logs, servers): (Vec<SubscriptionSpec>, &[&str]),
    is_read: bool,
    has_rules: bool,
    ports: usize,
) -> Vec<Subscription> {
    let mut specs = Vec::new();
    let extracted = extracted.filter(|_| options.extraction.whole().next().is_some());
    let carves = extracted.is_some();
    let given = &options.packets;
    let [whole, unidentified] = packet_files(packets);
    specs.extend(whole.filter(|_| given.whole().next().is_some()));
    specs.extend(unidentified.filter(|_| given.unidentified.is_some()));
    specs.extend(extracted.map(extract));
    let mut add = |is_given: bool, spec: SubscriptionSpec| specs.extend(is_given.then_some(spec));
    // Extracted files are named by their SHA-256.
    let by_default = Hashes { sha256: carves, ..Hashes::default() };
    let hashes = options.extraction.hash.unwrap_or(by_default);
    let names = [("md5", hashes.md5), ("sha1", hashes.sha1), ("sha256", hashes.sha256)];
    let names: Vec<&str> = names.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
    add(!names.is_empty(), hash(&names.join("+")));
    let sample = options.logs.sample.unwrap_or(0);
    let measure = FunctionCall::new("measure").with("sample", sample);
    let measure = SubscriptionSpec::delivering("--measure", Level::Flow, vec![measure]);
    add(options.logs.measure || sample > 0, measure);
    add(has_rules, rules());
    let is_read = is_read || !specs.is_empty();
    // The numbers of the others do not depend on the logs.
    specs.extend(logs);
    specs.extend(servers.iter().map(|server| of_server(server)));
    let mut subscriptions: Vec<Subscription> = numbered(specs).collect();
    if is_read || !options.numeric {
        let call = FunctionCall::new("unidentified").with("ports", ports);
        let spec = SubscriptionSpec::delivering("unidentified", Level::Flow, vec![call]);
        subscriptions.push(of_run(builtin::UNIDENTIFIED, spec));
    }
    subscriptions
}

/// The subscriptions of the packet files and the extracted files that a configuration asks for, and the command line does not.
pub fn of_files(options: &cli::RunOptions, (packets, extracted): Files<'_>) -> Vec<SubscriptionSpec> {
    let given = &options.packets;
    let extracted = extracted.filter(|_| options.extraction.whole().next().is_none());
    let [whole, unidentified] = packet_files(packets);
    let requested = [
        whole.filter(|_| given.whole().next().is_none()),
        unidentified.filter(|_| given.unidentified.is_none()),
        extracted.map(extract),
        extracted.filter(|_| options.extraction.hash.is_none()).map(|_| hash("sha256")),
    ];
    requested.into_iter().flatten().collect()
}

/// The subscriptions of -w and of --unidentified.
fn packet_files(packets: &WriteCalls) -> [Option<SubscriptionSpec>; 2] {
    let delivering = |name: &str, level: Level, call: &Option<FunctionCall>| {
        call.as_ref().map(|call| SubscriptionSpec::delivering(name, level, vec![call.clone()]))
    };
    [
        delivering("-w", Level::Packet, &packets.matching),
        delivering("--unidentified", Level::Stream, &packets.unidentified),
    ]
}

/// The subscription of all files to a directory.
fn extract((directory, limits): &(PathBuf, Limits)) -> SubscriptionSpec {
    let call = limits.call("extractall", &directory.to_string_lossy());
    SubscriptionSpec::delivering("--files", Level::Stream, vec![call])
}

/// Checksums of files, joined by `+`.
fn hash(of: &str) -> SubscriptionSpec {
    SubscriptionSpec::delivering("--hash", Level::Stream, vec![FunctionCall::new("hash").with("of", of)])
}

/// Whether a log has rows of flows or records, for which payload is read.
pub fn reads(log: &Log) -> bool {
    log.flows() || !log.tables().is_empty()
}

/// The subscriptions of logs to their rows. A log of counts has none.
pub fn of_logs(logs: &[Log]) -> Vec<SubscriptionSpec> {
    logs.iter().filter_map(of_log).collect()
}

/// The subscription of a server, by its name among the outputs, to events.
fn of_server(server: &str) -> SubscriptionSpec {
    let call = FunctionCall::new("rows").with("of", "event").with("to", server).with("bodies", "no");
    let name = if server == syslog::NAME { "--syslog" } else { server };
    SubscriptionSpec::delivering(name, Level::Record, vec![call])
}

/// The subscription of a log to its rows; `None` if it has only counts.
fn of_log(log: &Log) -> Option<SubscriptionSpec> {
    let mut rows: Vec<&str> = log.tables().iter().map(|table| table.name).collect();
    rows.extend(log.flows().then_some("flow"));
    rows.extend(log.events().then_some("event"));
    let bodies = if log.fields().any(|field| field.of_body) { "yes" } else { "no" };
    let to = log.spec().name;
    let call = FunctionCall::new("rows").with("of", rows.join("+")).with("to", to).with("bodies", bodies);
    let name = format!("--log {to}");
    (!rows.is_empty()).then(|| SubscriptionSpec::delivering(&name, Level::Record, vec![call]))
}

/// Numbers the subscriptions that the command line makes. They are free, as those of a configuration, which follow.
pub fn typed(specs: &[SubscriptionSpec]) -> impl Iterator<Item = Subscription> {
    (builtin::FIRST_FREE.0..).zip(specs).map(|(number, spec)| of_run(SubscriptionId(number), spec.clone()))
}

/// Numbers the subscriptions of options.
fn numbered(specs: impl IntoIterator<Item = SubscriptionSpec>) -> impl Iterator<Item = Subscription> {
    let numbers = builtin::OF_OPTIONS.0..builtin::FIRST_FREE.0;
    numbers.zip(specs).map(|(number, spec)| of_run(SubscriptionId(number), spec))
}

fn of_run(id: SubscriptionId, spec: SubscriptionSpec) -> Subscription {
    Subscription { id, owner: Owner::Run, spec: Arc::new(spec) }
}

/// Numbers built-in subscriptions by their names.
fn built_in(specs: impl IntoIterator<Item = SubscriptionSpec>) -> Vec<Subscription> {
    let numbered = |spec: SubscriptionSpec| {
        let id = builtin::number_of(&spec.name)?;
        Some(of_run(id, spec))
    };
    specs.into_iter().filter_map(numbered).collect()
}

fn top(by: &str) -> FunctionCall {
    FunctionCall::new("top").with("by", by)
}

/// A subscription whose readings are for the summary, the live screen, the pages and the metrics, and go to no other output.
fn of_summary(name: &str, level: Level, functions: Vec<FunctionCall>) -> SubscriptionSpec {
    SubscriptionSpec {
        level,
        outputs: Some(vec![metrics::NAME.to_owned()]),
        ..SubscriptionSpec::new(name, "", functions)
    }
}

fn all(name: &str, function: FunctionCall) -> SubscriptionSpec {
    SubscriptionSpec::new(name, "", vec![function])
}
