//! The configuration weir.toml, parsed strictly into plain data.
//!
//! An unknown key or a wrong value is never ignored. [`load`] returns either all errors, each with its line, or a
//! configuration in which every expression compiles and every function can be built.

mod anon;
mod apps;
mod explain;
mod expression;
mod fault;
mod files;
mod functions;
mod known;
mod ourmon;
mod packets;
mod read;
mod rings;
mod rules;
mod server;
mod store;
mod triggers;

pub use anon::{Anon, MAX_SHIFT};
pub use explain::{explain, limits, settings};
pub use expression::{check_at, over_records};
pub use fault::{ConfigErrors, nearest, printable};
pub use files::Files;
pub use functions::level_named;
pub use ourmon::from_ourmon;
pub use packets::Packets;
pub use read::toml_string;
pub use rules::RuleSettings;
pub use server::Server;
pub use store::StoreSettings;

use crate::fields::RunFields;
use crate::privileges::{Account, Unwritable, act_as, may_create_in, may_write};
use crate::triggers::{TriggerSpec, may_follow};
use crate::{outputs, syslog, webhook};
use fault::Fault;
use read::{ConfigReader, Key, Node};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;
use weir_api::{FunctionCall, NetError, SubscriptionSpec, Unit};
use weir_engine::OwnApp;
use weir_output::{Home, Log, WormOrder, Worms};
use weir_proto::Inflation;

/// Interval if the file sets none.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// Limit in bytes of all memory that grows with traffic, unless one is given.
pub const DEFAULT_MEMORY: u64 = 512 << 20;

/// Logs if the file sets a folder and no logs.
const DEFAULT_LOGS: [&str; 2] = ["zeek", "eve"];

/// A value and its line in the file; no line if it is the default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Setting<T> {
    /// The value in effect.
    pub value: T,
    /// Its line in the file, counted from 1.
    pub line: Option<usize>,
}

impl<T> Setting<T> {
    fn default_of(value: T) -> Self {
        Self { value, line: None }
    }
}

/// The contents of a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Length of an interval, 1 s to 1 h.
    pub interval: Setting<Duration>,
    /// Maximum bytes of all tables together.
    pub memory: Setting<u64>,
    /// Size in bytes up to which compressed content of a flow is always decompressed.
    pub inflate: Setting<u32>,
    /// Maximum decompressed bytes per compressed byte, beyond `inflate`.
    pub inflate_ratio: Setting<u32>,
    /// Size in bytes up to which compressed content of all flows of a worker is decompressed at once.
    pub inflate_total: Setting<u32>,
    /// Bytes by which each byte of packets refills `inflate_total`.
    pub inflate_total_ratio: Setting<u32>,
    /// Number of workers; `None`: one per core.
    pub workers: Setting<Option<usize>>,
    /// Interfaces to capture on, as one stream.
    pub interfaces: Setting<Vec<String>>,
    /// The pcap-filter(7) expression that selects the packets to analyse; empty for every packet.
    pub expression: Setting<String>,
    /// The home networks: by default the private ones.
    pub home: Setting<Home>,
    /// The settings of Ourmon's mon.lite.
    pub mon: Mon,
    /// Logs.
    pub output: Output,
    /// The packet file.
    pub packets: Packets,
    /// Files that are extracted from streams.
    pub files: Files,
    /// Rules that look at flows.
    pub rules: RuleSettings,
    /// Anonymisation.
    pub anon: Anon,
    /// The server of the pages, and its users.
    pub server: Server,
    /// The store and its limits.
    pub store: StoreSettings,
    /// Charts (Ourmon's filter-sets), in the order of the file.
    pub charts: Vec<Chart>,
    /// The other subscriptions, in the order of the file.
    pub subscriptions: Vec<SubscriptionSpec>,
    /// The triggers, in the order of the file.
    pub triggers: Vec<TriggerSpec>,
    /// Bytes of memory for the packets that are kept for triggers; `None` for the share of [`crate::memory::prerolls`].
    pub trigger_memory: Setting<Option<u64>>,
    /// Applications, in the order of the file.
    pub apps: Vec<OwnApp>,
    /// The files of `in @FILE` in its expressions, as they are written.
    pub lists: BTreeSet<String>,
}

/// The folder of logs, and the selected logs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Output {
    /// The folder.
    pub dir: Setting<Option<PathBuf>>,
    /// The logs, by their names in [`outputs::all`].
    pub log: Setting<Vec<String>>,
    /// Nanoseconds after which logs are rotated.
    pub rotate: Setting<Option<u64>>,
    /// Bytes after which a log is rotated.
    pub rotate_size: Setting<Option<u64>>,
    /// Whether finished files are compressed.
    pub zstd: Setting<bool>,
    /// Whether reports about hosts are written beside the logs.
    pub reports: Setting<bool>,
    /// The syslog server that events are sent to.
    pub syslog: Setting<Option<syslog::Destination>>,
    /// Certificates of the authorities that a syslog server over TLS needs one of, in place of the system's.
    pub syslog_ca: Setting<Option<PathBuf>>,
    /// The address that events are posted to.
    pub webhook: Setting<Option<webhook::Address>>,
    /// The file with the key of the signatures of what is posted.
    pub webhook_secret_file: Setting<Option<PathBuf>>,
    /// Certificates of the authorities that a webhook needs one of, in place of the system's.
    pub webhook_ca: Setting<Option<PathBuf>>,
}

/// The name of Ourmon's probe, and what its lines of hosts that may be worms have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mon {
    /// The name of the probe in the first line; empty without one.
    pub sysname: Setting<String>,
    /// See [`Worms::difference`].
    pub worm_difference: Setting<u64>,
    /// See [`Worms::weight`].
    pub worm_weight: Setting<u64>,
    /// See [`Worms::order`].
    pub syn_order: Setting<WormOrder>,
}

impl Default for Mon {
    fn default() -> Self {
        let Worms { difference, weight, order, .. } = Worms::default();
        Self {
            sysname: Setting::default(),
            worm_difference: Setting::default_of(difference),
            worm_weight: Setting::default_of(weight),
            syn_order: Setting::default_of(order),
        }
    }
}

/// A chart of named lines, each an expression: Ourmon's filter-set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// The unit of its lines.
    pub unit: Unit,
    /// Whether a line `xtra` counts the packets that match no other line.
    pub xtra: bool,
    /// The lines, in order.
    pub lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// A pcap-filter(7) expression; empty for every packet.
    pub expression: String,
}

impl Default for Output {
    fn default() -> Self {
        let log = DEFAULT_LOGS.iter().map(|kind| (*kind).to_owned()).collect();
        Self {
            log: Setting::default_of(log),
            dir: Setting::default(),
            rotate: Setting::default(),
            rotate_size: Setting::default(),
            syslog: Setting::default(),
            syslog_ca: Setting::default(),
            webhook: Setting::default(),
            webhook_secret_file: Setting::default(),
            webhook_ca: Setting::default(),
            zstd: Setting::default(),
            reports: Setting::default(),
        }
    }
}

/// Name of the line for packets that match no other line.
pub const XTRA: &str = "xtra";

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Setting::default_of(DEFAULT_INTERVAL),
            memory: Setting::default_of(DEFAULT_MEMORY),
            inflate: Setting::default_of(Inflation::default().free),
            inflate_ratio: Setting::default_of(Inflation::default().ratio),
            inflate_total: Setting::default_of(Inflation::default().total),
            inflate_total_ratio: Setting::default_of(Inflation::default().total_ratio),
            workers: Setting::default(),
            interfaces: Setting::default(),
            expression: Setting::default(),
            home: Setting::default(),
            mon: Mon::default(),
            output: Output::default(),
            packets: Packets::default(),
            files: Files::default(),
            rules: RuleSettings::default(),
            anon: Anon::default(),
            server: Server::default(),
            store: StoreSettings::default(),
            charts: Vec::new(),
            subscriptions: Vec::new(),
            triggers: Vec::new(),
            trigger_memory: Setting::default(),
            apps: Vec::new(),
            lists: BTreeSet::new(),
        }
    }
}

/// The settings that a live run changes, beside charts and subscriptions.
const CHANGEABLE: [&str; 13] = [
    "expression",
    "output.dir",
    "output.log",
    "output.rotate",
    "packets.write",
    "packets.rotate",
    "packets.rotate_size",
    "packets.files",
    "packets.unidentified",
    "files.dir",
    "files.each",
    "files.total",
    "files.count",
];

impl Config {
    /// This configuration with the settings of another that a live run cannot change, and those of them that differ.
    pub fn changing(self, start: &Config) -> (Config, Vec<&'static str>) {
        let (before, after) = (settings(start), settings(&self));
        let differs = before.iter().zip(&after).filter(|((_, before, _), (_, after, _))| before != after);
        let mut fixed: Vec<&'static str> =
            differs.map(|((key, ..), _)| *key).filter(|key| !CHANGEABLE.contains(key)).collect();
        fixed.extend((self.anon != start.anon).then_some("anon"));
        let interval = start.interval.value.as_nanos() as u64;
        let triggers_follow =
            self.triggers == start.triggers || may_follow(&start.triggers, &self.triggers, interval);
        fixed.extend((!triggers_follow).then_some("trigger"));
        fixed.extend((self.apps != start.apps).then_some("app"));
        let Output { dir, log, rotate, .. } = self.output;
        let config = Config {
            expression: self.expression,
            output: Output { dir, log, rotate, ..start.output.clone() },
            packets: self.packets,
            files: self.files,
            charts: self.charts,
            subscriptions: self.subscriptions,
            lists: self.lists,
            triggers: if triggers_follow { self.triggers } else { start.triggers.clone() },
            ..start.clone()
        };
        (config, fixed)
    }

    /// The number of its triggers, after a comma; empty without one.
    fn counted_triggers(&self) -> String {
        match self.triggers.len() {
            0 => String::new(),
            number => format!(", {}", counted(number, "trigger")),
        }
    }

    /// The settings of the report of hosts that may be worms.
    pub fn worms(&self) -> Worms {
        let Mon { worm_difference, worm_weight, syn_order, .. } = &self.mon;
        Worms {
            home: self.home.value.clone(),
            difference: worm_difference.value,
            weight: worm_weight.value,
            order: syn_order.value,
        }
    }

    /// All subscriptions of the file: the lines of its charts, its subscriptions, then those of its triggers.
    pub fn plan(&self) -> Vec<SubscriptionSpec> {
        let of_charts = self.charts.iter().flat_map(Chart::subscriptions);
        let of_triggers = self.triggers.iter().filter_map(|trigger| trigger.subscription().cloned());
        of_charts.chain(self.subscriptions.iter().cloned()).chain(of_triggers).collect()
    }
}

impl Chart {
    /// Its lines.
    fn subscriptions(&self) -> Vec<SubscriptionSpec> {
        let function = match self.unit {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
        };
        let line = |name: &str, expression: &str| SubscriptionSpec {
            chart: Some(self.name.clone()),
            ..SubscriptionSpec::new(name, expression, vec![FunctionCall::new(function)])
        };
        let named = self.lines.iter().map(|l| line(&l.name, &l.expression));
        let xtra = self.xtra.then(|| SubscriptionSpec { remainder: true, ..line(XTRA, "") });
        named.chain(xtra).collect()
    }
}

static KEYS: [Key<Config>; 23] = [
    Key {
        name: "interval",
        takes: "a duration from \"1s\" to \"1h\", such as \"30s\" or \"5m\"",
        read: |r, node, config| {
            let value = r.duration(node);
            r.set(node, value, &mut config.interval);
        },
    },
    Key {
        name: "memory",
        takes: "an amount from \"16M\", such as \"512M\" or \"2G\"",
        read: |r, node, config| {
            let value = r.memory(node);
            r.set(node, value, &mut config.memory);
        },
    },
    rings::MEMORY,
    Key {
        name: "inflate",
        takes: "an amount up to \"1G\", such as \"64K\" or \"1M\"",
        read: |r, node, config| {
            let value = r.parsed(node, crate::cli::inflated);
            r.set(node, value, &mut config.inflate);
        },
    },
    Key {
        name: "inflate_ratio",
        takes: "a whole number from 1 to 2000",
        read: |r, node, config| {
            let value = r.integer(node, 1, 2000).map(|ratio| ratio as u32);
            r.set(node, value, &mut config.inflate_ratio);
        },
    },
    Key {
        name: "inflate_total",
        takes: "an amount up to \"1G\", such as \"8M\" or \"16M\"",
        read: |r, node, config| {
            let value = r.parsed(node, crate::cli::inflated);
            r.set(node, value, &mut config.inflate_total);
        },
    },
    Key {
        name: "inflate_total_ratio",
        takes: "a whole number from 1 to 2000",
        read: |r, node, config| {
            let value = r.integer(node, 1, 2000).map(|ratio| ratio as u32);
            r.set(node, value, &mut config.inflate_total_ratio);
        },
    },
    Key {
        name: "workers",
        takes: "a whole number from 1 to 1024; without it there is one for each core, and one alone for captures below 64 MiB",
        read: |r, node, config| {
            let line = Some(r.line(node.span().start));
            if let Some(value) = r.integer(node, 1, 1024) {
                config.workers = Setting { value: Some(value as usize), line };
            }
        },
    },
    Key {
        name: "interfaces",
        takes: "a list of interface names, such as [\"eth0\"]",
        read: |r, node, config| {
            config.interfaces.line = Some(r.line(node.span().start));
            let mut seen = Unique::new("interface");
            for element in r.array(node) {
                let Some(name) = r.name(element) else { continue };
                // The kernel's IFNAMSIZ is 16 with the closing zero (netdevice(7)).
                if name.len() > 15 || name.contains(['/', ' ']) {
                    r.refuse(element.span(), format!("{name:?} is not a valid interface name"));
                } else if seen.is_new(r, &name, element.span()) {
                    config.interfaces.value.push(name);
                }
            }
        },
    },
    Key {
        name: "expression",
        takes: EXPRESSION,
        read: |r, node, config| {
            let value = expression::read(r, node);
            r.set(node, value, &mut config.expression);
        },
    },
    Key {
        name: "home",
        takes: "a list of networks, such as [\"10.0.0.0/8\", \"2001:db8::/32\"]",
        read: |r, node, config| {
            let net = |text: &str| text.parse().map_err(|error: NetError| format!("{text:?} is {error}"));
            let nets = r.array(node).iter().filter_map(|element| r.parsed(element, net)).collect();
            r.set(node, Some(Home { nets }), &mut config.home);
        },
    },
    Key {
        name: "mon",
        takes: "a table, such as [mon]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &MON_KEYS, &mut config.mon);
            }
        },
    },
    Key {
        name: "output",
        takes: "a table, such as [output]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &OUTPUT_KEYS, &mut config.output);
            }
        },
    },
    Key {
        name: "packets",
        takes: "a table, such as [packets]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &packets::KEYS, &mut config.packets);
                packets::check(r, table);
            }
        },
    },
    Key {
        name: "files",
        takes: "a table, such as [files]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &files::KEYS, &mut config.files);
                files::check(r, table);
            }
        },
    },
    Key {
        name: "rules",
        takes: "a table, such as [rules]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &rules::KEYS, &mut config.rules);
                rules::check(r, table);
            }
        },
    },
    Key {
        name: "anon",
        takes: "a table, such as [anon]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &anon::KEYS, &mut config.anon);
            }
        },
    },
    Key {
        name: "server",
        takes: "a table, such as [server]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &server::KEYS, &mut config.server);
                server::check(r, table);
            }
        },
    },
    Key {
        name: "store",
        takes: "a table, such as [store]",
        read: |r, node, config| {
            if let Some(table) = r.table(node) {
                r.fill(table, &store::KEYS, &mut config.store);
                store::check(r, table, &config.store);
            }
        },
    },
    Key { name: "chart", takes: "tables, each headed by [[chart]]", read: read_charts },
    SUBSCRIPTION,
    Key { name: "trigger", takes: "tables, each headed by [[trigger]]", read: triggers::read },
    Key { name: "app", takes: "tables, each headed by [[app]]", read: apps::read },
];

const SUBSCRIPTION: Key<Config> =
    Key { name: "subscription", takes: "tables, each headed by [[subscription]]", read: read_subscriptions };

/// The keys of the text of a client that only subscribes.
static SUBSCRIBING: [Key<Config>; 1] = [SUBSCRIPTION];

static MON_KEYS: [Key<Mon>; 4] = [
    Key {
        name: "sysname",
        takes: "the name of the probe",
        read: |r, node, mon| {
            let name = r.name(node);
            r.set(node, name, &mut mon.sysname);
        },
    },
    Key {
        name: "worm_difference",
        takes: "a whole number from 0 to 1000000",
        read: |r, node, mon| {
            let value = r.integer(node, 0, 1_000_000);
            r.set(node, value, &mut mon.worm_difference);
        },
    },
    Key {
        name: "worm_weight",
        takes: "a whole number from 0 to 100",
        read: |r, node, mon| {
            let value = r.integer(node, 0, 100);
            r.set(node, value, &mut mon.worm_weight);
        },
    },
    Key {
        name: "syn_order",
        takes: "\"work\", \"syn\" or \"weight\"",
        read: |r, node, mon| {
            let word = r.word(node, &WormOrder::ALL.map(WormOrder::name));
            let order = word.and_then(|word| WormOrder::ALL.into_iter().find(|order| order.name() == word));
            r.set(node, order, &mut mon.syn_order);
        },
    },
];

static OUTPUT_KEYS: [Key<Output>; 11] = [
    Key {
        name: "syslog",
        takes: "a server, such as \"udp:192.0.2.1\", \"tcp:192.0.2.1\", \"tls:log.example\" or \"unix:/dev/log\"",
        read: |r, node, output| {
            let server = r.parsed(node, str::parse).map(Some);
            r.set(node, server, &mut output.syslog);
        },
    },
    Key {
        name: "syslog_ca",
        takes: "a file of certificates, such as \"/etc/weir/syslog-ca.pem\"",
        read: |r, node, output| r.set_path(node, &mut output.syslog_ca),
    },
    Key {
        name: "webhook",
        takes: "an address, such as \"https://host.example/path\"",
        read: |r, node, output| {
            let address = r.parsed(node, str::parse).map(Some);
            r.set(node, address, &mut output.webhook);
        },
    },
    Key {
        name: "webhook_secret_file",
        takes: "a file with a key, such as \"/etc/weir/webhook.key\"",
        read: |r, node, output| r.set_path(node, &mut output.webhook_secret_file),
    },
    Key {
        name: "webhook_ca",
        takes: "a file of certificates, such as \"/etc/weir/webhook-ca.pem\"",
        read: |r, node, output| r.set_path(node, &mut output.webhook_ca),
    },
    Key {
        name: "dir",
        takes: "a directory, such as \"/var/log/weir\"",
        read: |r, node, output| {
            let dir = r.path(node).filter(|path| path.as_os_str() != "-");
            if dir.is_none() && node.get_ref().as_str() == Some("-") {
                r.refuse(node.span(), "standard output is for -o on the command line");
            }
            r.set(node, dir.map(Some), &mut output.dir);
        },
    },
    Key {
        name: "log",
        takes: "a list of logs, such as [\"zeek\", \"eve:flow+http+dns\"]; an empty list for those of subscriptions alone",
        read: |r, node, output| {
            output.log = Setting { value: Vec::new(), line: Some(r.line(node.span().start)) };
            let mut seen = Unique::new("log");
            for element in r.array(node) {
                let Some(kind) = r.string(element) else { continue };
                // The name of the log, then its rows.
                let (name, rows) = kind.split_once(':').unwrap_or((kind, ""));
                let kinds: Vec<&'static str> = outputs::all().iter().map(|output| output.name).collect();
                if r.one_of(name, element.span(), &kinds).is_none() {
                    continue;
                }
                match Log::find(&outputs::all(), kind) {
                    Err(error) => r.refuse(element.span(), format!("{rows:?}: {error}")),
                    Ok(_) if seen.is_new(r, kind, element.span()) => output.log.value.push(kind.to_owned()),
                    Ok(_) => {}
                }
            }
        },
    },
    Key {
        name: "rotate",
        takes: "a duration, such as \"10m\", \"1h\" or \"1d\"",
        read: |r, node, output| {
            let value = r.parsed(node, crate::cli::period).map(Some);
            r.set(node, value, &mut output.rotate);
        },
    },
    Key {
        name: "rotate_size",
        takes: "an amount, such as \"100M\"",
        read: |r, node, output| {
            let value = r.parsed(node, crate::cli::bytes).map(Some);
            r.set(node, value, &mut output.rotate_size);
        },
    },
    Key {
        name: "zstd",
        takes: "true to compress files that are finished, or false",
        read: |r, node, output| {
            let value = r.boolean(node);
            r.set(node, value, &mut output.zstd);
        },
    },
    Key {
        name: "reports",
        takes: "true to write reports about the hosts of each hour, day and week from the store, or false",
        read: |r, node, output| {
            let value = r.boolean(node);
            r.set(node, value, &mut output.reports);
        },
    },
];

/// Accepted values of a key with an expression.
const EXPRESSION: &str = "a pcap-filter(7) expression, such as \"tcp port 80\"";

static CHART_KEYS: [Key<Chart>; 4] = [
    Key {
        name: "name",
        takes: "a name, such as \"ports\"",
        read: |r, node, chart| chart.name = r.name(node).unwrap_or_default(),
    },
    Key {
        name: "unit",
        takes: "\"bytes\" or \"packets\"",
        read: |r, node, chart| {
            if let Some(word) = r.word(node, &["bytes", "packets"]) {
                chart.unit = if word == "bytes" { Unit::Bytes } else { Unit::Packets };
            }
        },
    },
    Key {
        name: "xtra",
        takes: "true for a line that counts packets that match no other line, or false",
        read: |r, node, chart| chart.xtra = r.boolean(node).unwrap_or_default(),
    },
    Key {
        name: "lines",
        takes: "a list of { name = \"ssh\", expression = \"tcp port 22\" }",
        read: |r, node, chart| {
            let mut seen = Unique::new("line");
            for element in r.array(node) {
                let mut line = Line::default();
                let Some(table) = r.table(element) else { continue };
                r.fill(table, &LINE_KEYS, &mut line);
                require(r, table, element.span(), "this line", &["name", "expression"]);
                let at = table.get("name").map_or(element.span(), |name| name.span());
                if seen.is_new(r, &line.name, at) {
                    chart.lines.push(line);
                }
            }
        },
    },
];

static LINE_KEYS: [Key<Line>; 2] = [
    Key {
        name: "name",
        takes: "a name, such as \"ssh\"",
        read: |r, node, line| match r.name(node) {
            Some(name) if name == XTRA => {
                r.refuse(node.span(), "xtra counts packets that match no other line: set xtra = true for it");
            }
            name => line.name = name.unwrap_or_default(),
        },
    },
    Key {
        name: "expression",
        takes: EXPRESSION,
        read: |r, node, line| line.expression = expression::read(r, node).unwrap_or_default(),
    },
];

fn read_charts(r: &mut ConfigReader<'_>, node: &Node<'_>, config: &mut Config) {
    let mut seen = Unique::new("chart");
    for element in r.array(node) {
        let Some(table) = r.table(element) else { continue };
        let mut chart = Chart::default();
        r.fill(table, &CHART_KEYS, &mut chart);
        require(r, table, element.span(), "this chart", &["name", "lines"]);
        let at = table.get("name").map_or(element.span(), |name| name.span());
        if seen.is_new(r, &chart.name, at) {
            config.charts.push(chart);
        }
    }
}

fn read_subscriptions(r: &mut ConfigReader<'_>, node: &Node<'_>, config: &mut Config) {
    let mut seen = Unique::new("subscription");
    for element in r.array(node) {
        let Some(table) = r.table(element) else { continue };
        let mut subscription = SubscriptionSpec::new("", "", Vec::new());
        subscription.level = functions::level_of(table);
        r.fill(table, &functions::SUBSCRIPTION_KEYS, &mut subscription);
        let chain = if table.contains_key("chain") { "chain" } else { "functions" };
        require(r, table, element.span(), "this subscription", &["name", chain]);
        for (one, other) in functions::SAME {
            if let (Some(_), Some(second)) = (table.get(one), table.get(other)) {
                let message = format!("{other} is another word for {one}: remove one of them");
                r.faults.push(Fault::new(second.span(), message));
            }
        }
        functions::check_levels(r, table, subscription.level);
        let at = table.get("name").map_or(element.span(), |name| name.span());
        if seen.is_new(r, &subscription.name, at) {
            config.subscriptions.push(subscription);
        }
    }
}

/// Reports the required keys that a table does not have.
fn require(r: &mut ConfigReader<'_>, table: &DeTable<'_>, at: Range<usize>, what: &str, keys: &[&str]) {
    for key in keys.iter().filter(|key| !table.contains_key(**key)) {
        r.faults.push(Fault::new(at.clone(), format!("{what} has no {key}")));
    }
}

/// Names that may occur only once.
struct Unique {
    what: &'static str,
    seen: HashMap<String, usize>,
}

impl Unique {
    fn new(what: &'static str) -> Self {
        Self { what, seen: HashMap::new() }
    }

    /// Returns whether the name is new, and reports a duplicate. An empty name has been reported already.
    fn is_new(&mut self, r: &mut ConfigReader<'_>, name: &str, at: Range<usize>) -> bool {
        let line = r.line(at.start);
        match self.seen.get(name) {
            _ if name.is_empty() => {}
            Some(first) => {
                let message = format!("the {} {name:?} exists already, on line {first}", self.what);
                r.faults.push(Fault::new(at, message));
                return false;
            }
            None => {
                self.seen.insert(name.to_owned(), line);
            }
        }
        true
    }
}

/// Reads a configuration of the user who started the program. `path` is used in messages only.
///
/// # Errors
/// All errors in the text.
pub fn load(path: &Path, text: &str) -> Result<Config, ConfigErrors> {
    load_with(path, text, &RunFields::default())
}

/// Reads a configuration whose expressions may test these fields and read their lists. `path` is used in messages only.
///
/// # Errors
/// All errors in the text.
pub fn load_with(path: &Path, text: &str, fields: &RunFields) -> Result<Config, ConfigErrors> {
    load_keys(path, text, fields, &KEYS)
}

/// Reads a text of `[[subscription]]` tables as a configuration has them, and nothing else.
///
/// # Errors
/// All errors in the text.
pub fn load_subscriptions(text: &str, fields: &RunFields) -> Result<Vec<SubscriptionSpec>, ConfigErrors> {
    load_keys(Path::new(""), text, fields, &SUBSCRIBING).map(|config| config.subscriptions)
}

fn load_keys(
    path: &Path,
    text: &str,
    fields: &RunFields,
    keys: &[Key<Config>],
) -> Result<Config, ConfigErrors> {
    let (table, syntax) = DeTable::parse_recoverable(text);
    let mut reader = ConfigReader::new(text, fields);
    let mut config = Config::default();
    reader.fill(table.get_ref(), keys, &mut config);
    rings::check(&mut reader, table.get_ref(), &config);
    config.lists = fields.lists();
    let mut broken: Vec<Fault> = syntax
        .iter()
        .map(|error| {
            let span = error.span().unwrap_or(text.len()..text.len());
            Fault::new(span, error.message().lines().collect::<Vec<_>>().join(", "))
        })
        .collect();
    // After a syntax error the parser guesses the rest of the line. Its further errors in that line, and ours after
    // it, are not useful.
    broken.sort_by_key(|fault| fault.span.start);
    broken.dedup_by_key(|fault| reader.line(fault.span.start));
    let sound = broken.first().map_or(usize::MAX, |first| reader.line(first.span.start));
    let mut faults = std::mem::take(&mut reader.faults);
    faults.retain(|fault| reader.line(fault.span.start) < sound);
    faults.extend(broken);
    if faults.is_empty() { Ok(config) } else { Err(ConfigErrors::new(path, text, faults)) }
}

/// The output of a command and its exit code.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// Text for standard output.
    pub stdout: String,
    /// Text for standard error.
    pub stderr: String,
    /// The exit code: 0 for success, 1 for a wrong configuration.
    pub exit: u8,
}

impl Outcome {
    /// The text of an error.
    pub fn failed(stderr: String) -> Self {
        Self { stderr, exit: 1, ..Self::default() }
    }
}

/// The outputs of a configuration that a live run with it could not write to: the key, its line, and the reason. A process of root
/// becomes the user that the run would become; folders that are missing are made before that.
fn unwritable(config: &Config) -> Vec<(&'static str, usize, Unwritable)> {
    let mut refused = unwritable_by_me(config, |_| true);
    if let Ok(Some(user)) = Account::of_run(None)
        && act_as(&user).is_ok()
    {
        let known: Vec<&str> = refused.iter().map(|(key, ..)| *key).collect();
        let later = unwritable_by_me(config, Path::exists);
        let new = later.into_iter().filter(|(key, ..)| !known.contains(key)).collect::<Vec<_>>();
        // This user is the one of the run: another one need not be considered.
        refused.extend(
            new.into_iter().map(|(key, line, why)| (key, line, Unwritable { is_certain: true, ..why })),
        );
    }
    refused
}

/// The outputs among those `of` a kind that the present user cannot write to.
fn unwritable_by_me(config: &Config, of: impl Fn(&Path) -> bool) -> Vec<(&'static str, usize, Unwritable)> {
    let Config { output, packets, files, store, .. } = config;
    let outputs = [
        ("output.dir", &output.dir, true),
        ("packets.write", &packets.write, false),
        ("packets.unidentified", &packets.unidentified, false),
        ("files.dir", &files.dir, true),
        ("store.dir", &store.dir, true),
    ];
    let failure = |(key, setting, is_folder): (&'static str, &Setting<Option<PathBuf>>, bool)| {
        let path = setting.value.as_deref().filter(|path| of(path))?;
        let attempt = if is_folder { may_create_in(path) } else { may_write(path) };
        Some((key, setting.line.unwrap_or_default(), attempt.err()?))
    };
    outputs.into_iter().filter_map(failure).collect()
}

/// `weir config check FILE`.
pub fn check(path: &Path) -> Outcome {
    match load_file(path) {
        Err(stderr) => Outcome::failed(stderr),
        Ok(config) => {
            let shown = printable(&path.to_string_lossy());
            let failures = unwritable(&config);
            let lines = |is_certain| -> String {
                let some = failures.iter().filter(|(.., why)| why.is_certain == is_certain);
                some.map(|(key, line, why)| format!("{shown}:{line}: {key}: {}\n", printable(&why.text)))
                    .collect()
            };
            let (wrong, doubtful) = (lines(true), lines(false));
            if !wrong.is_empty() {
                return Outcome::failed(wrong);
            }
            let note = match doubtful.is_empty() {
                true => "",
                false => ", if the run's user may write where the present user may not",
            };
            Outcome {
                stdout: format!(
                    "{shown}: good: {}, {}{}{note}\n{}",
                    counted(config.plan().len(), "subscription"),
                    counted(config.charts.len(), "chart"),
                    config.counted_triggers(),
                    rings::note(&config)
                ),
                stderr: doubtful,
                exit: 0,
            }
        }
    }
}

/// Reads a file's configuration. The error is formatted for printing.
///
/// # Errors
/// The file cannot be read, or its text has errors: all of them.
pub fn load_file(path: &Path) -> Result<Config, String> {
    let text = read_text(path)?;
    load(path, &text).map_err(|errors| format!("{errors}\n"))
}

/// The file's text.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, String> {
    let shown = printable(&path.to_string_lossy());
    let bytes = std::fs::read(path).map_err(|error| format!("{shown}: cannot be read: {error}\n"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1;
        format!("{shown}:{line}: not UTF-8 text at byte {at}\n")
    })
}

/// "1 chart", "2 charts".
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
