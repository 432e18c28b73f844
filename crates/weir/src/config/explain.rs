//! `weir config explain`: the effective values, their origin, and their effect.

use super::fault::printable;
use super::functions::written;
use super::store::{LISTS_KEYS, SERIES_KEYS};
use super::{Config, Outcome, counted, load_file};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use weir_api::{Level, SubscriptionSpec};
use weir_store::Keep;

/// `weir config explain FILE`.
pub fn explain(path: &Path) -> Outcome {
    let name = printable(&path.to_string_lossy());
    match load_file(path) {
        Ok(config) => Outcome { stdout: explained(&name, &config), ..Outcome::default() },
        Err(stderr) => Outcome::failed(stderr),
    }
}

/// Every setting: its key, with its tables and dots in front; its value; and its line if the file sets it.
pub fn settings(config: &Config) -> Vec<(&'static str, String, Option<usize>)> {
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let paths =
        |paths: &[PathBuf]| list(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    let path = |path: &Option<PathBuf>| path.as_ref().map_or("none".to_owned(), |p| p.display().to_string());
    let server = &config.server;
    let after = |limit: Option<u64>, unit: &str, scale: u64| {
        limit.map_or("never".to_owned(), |limit| format!("after {}{unit}", limit / scale))
    };
    let mut settings = vec![
        ("interval", interval(config.interval.value.as_secs()), config.interval.line),
        ("memory", memory(config.memory.value), config.memory.line),
        (
            "trigger_memory",
            config.trigger_memory.value.map_or("at most 72M".to_owned(), memory),
            config.trigger_memory.line,
        ),
        ("inflate", memory(config.inflate.value.into()), config.inflate.line),
        ("inflate_ratio", config.inflate_ratio.value.to_string(), config.inflate_ratio.line),
        ("inflate_total", memory(config.inflate_total.value.into()), config.inflate_total.line),
        (
            "inflate_total_ratio",
            config.inflate_total_ratio.value.to_string(),
            config.inflate_total_ratio.line,
        ),
        (
            "workers",
            config.workers.value.map_or("one for each core".to_owned(), |n| n.to_string()),
            config.workers.line,
        ),
        ("interfaces", list(&config.interfaces.value), config.interfaces.line),
        ("expression", every(&config.expression.value).to_owned(), config.expression.line),
        (
            "home",
            match config.home.line {
                None => "private networks".to_owned(),
                Some(_) => list(&config.home.value.nets.iter().map(ToString::to_string).collect::<Vec<_>>()),
            },
            config.home.line,
        ),
        (
            "mon.sysname",
            match config.mon.sysname.value.as_str() {
                "" => "none".to_owned(),
                name => format!("{name:?}"),
            },
            config.mon.sysname.line,
        ),
        (
            "mon.worm_difference",
            config.mon.worm_difference.value.to_string(),
            config.mon.worm_difference.line,
        ),
        ("mon.worm_weight", format!("{}%", config.mon.worm_weight.value), config.mon.worm_weight.line),
        ("mon.syn_order", config.mon.syn_order.value.name().to_owned(), config.mon.syn_order.line),
        ("output.dir", path(&config.output.dir.value), config.output.dir.line),
        ("output.log", list(&config.output.log.value), config.output.log.line),
        ("output.rotate", after(config.output.rotate.value, "s", 1_000_000_000), config.output.rotate.line),
        (
            "output.rotate_size",
            after(config.output.rotate_size.value, " bytes", 1),
            config.output.rotate_size.line,
        ),
        ("output.zstd", config.output.zstd.value.to_string(), config.output.zstd.line),
        ("output.reports", config.output.reports.value.to_string(), config.output.reports.line),
        ("packets.write", path(&config.packets.write.value), config.packets.write.line),
        (
            "packets.rotate",
            after(config.packets.rotate.value, "s", 1_000_000_000),
            config.packets.rotate.line,
        ),
        (
            "packets.rotate_size",
            after(config.packets.rotate_size.value, " bytes", 1),
            config.packets.rotate_size.line,
        ),
        (
            "packets.files",
            config.packets.files.value.map_or("all".to_owned(), |files| files.to_string()),
            config.packets.files.line,
        ),
        ("packets.unidentified", path(&config.packets.unidentified.value), config.packets.unidentified.line),
        ("files.dir", path(&config.files.dir.value), config.files.dir.line),
        ("files.each", memory(config.files.each.value), config.files.each.line),
        ("files.total", memory(config.files.total.value), config.files.total.line),
        ("files.count", config.files.count.value.to_string(), config.files.count.line),
        ("rules.files", paths(&config.rules.files.value), config.rules.files.line),
        ("rules.variables", list(&config.rules.variables.value), config.rules.variables.line),
        (
            "rules.threshold_config",
            path(&config.rules.threshold_config.value),
            config.rules.threshold_config.line,
        ),
        ("rules.categories", path(&config.rules.categories.value), config.rules.categories.line),
        ("rules.reputation", paths(&config.rules.reputation.value), config.rules.reputation.line),
        ("rules.geoip", path(&config.rules.geoip.value), config.rules.geoip.line),
        ("rules.rarity", path(&config.rules.rarity.value), config.rules.rarity.line),
        (
            "rules.alert_payload",
            config.rules.alert_payload.value.to_string(),
            config.rules.alert_payload.line,
        ),
        (
            "rules.suricata_config",
            path(&config.rules.suricata_config.value),
            config.rules.suricata_config.line,
        ),
        ("rules.suricata_set", list(&config.rules.suricata_set.value), config.rules.suricata_set.line),
        ("rules.simulate_ips", config.rules.simulate_ips.value.to_string(), config.rules.simulate_ips.line),
        (
            "output.syslog",
            config.output.syslog.value.as_ref().map_or("none".to_owned(), ToString::to_string),
            config.output.syslog.line,
        ),
        (
            "output.webhook",
            config.output.webhook.value.as_ref().map_or("none".to_owned(), ToString::to_string),
            config.output.webhook.line,
        ),
        (
            "output.webhook_secret_file",
            path(&config.output.webhook_secret_file.value),
            config.output.webhook_secret_file.line,
        ),
        ("output.webhook_ca", path(&config.output.webhook_ca.value), config.output.webhook_ca.line),
        ("output.syslog_ca", path(&config.output.syslog_ca.value), config.output.syslog_ca.line),
        (
            "server.listen",
            server.listen.value.map_or("loopback".to_owned(), |address| address.to_string()),
            server.listen.line,
        ),
        (
            "server.port",
            server.port.value.map_or(crate::cli::PORT.to_string(), |port| port.to_string()),
            server.port.line,
        ),
        ("server.tls_cert", path(&server.tls_cert.value), server.tls_cert.line),
        ("server.tls_key", path(&server.tls_key.value), server.tls_key.line),
        ("server.users", path(&server.users.value), server.users.line),
        ("server.tokens", path(&server.tokens.value), server.tokens.line),
        ("server.access_log", path(&server.access_log.value), server.access_log.line),
        ("store.dir", path(&config.store.dir.value), config.store.dir.line),
    ];
    let store = &config.store;
    let lines = [store.age.line, store.size.line, store.free.line];
    settings
        .extend(limits(&store.keep()).into_iter().zip(lines).map(|((key, value), line)| (key, value, line)));
    let tiers = SERIES_KEYS.iter().zip(&store.series).chain(LISTS_KEYS.iter().zip(&store.lists));
    settings.extend(tiers.map(|(key, setting)| (*key, days(setting.value), setting.line)));
    let words: Vec<String> = store.findings.value.iter().map(|asked| asked.word().to_owned()).collect();
    let allowed: Vec<String> = store.beacon_allow.value.iter().map(ToString::to_string).collect();
    settings.push(("store.findings", list(&words), store.findings.line));
    settings.push(("store.beacon_allow", list(&allowed), store.beacon_allow.line));
    settings
}

/// The limits of flows and records in a store, by their keys.
pub fn limits(keep: &Keep) -> [(&'static str, String); 3] {
    [("store.age", days(keep.age)), ("store.size", memory(keep.bytes)), ("store.free", memory(keep.free))]
}

/// Nanoseconds as whole days if possible, else in hours or smaller units.
fn days(nanoseconds: u64) -> String {
    match nanoseconds / 1_000_000_000 {
        s if s.is_multiple_of(86_400) => format!("{}d", s / 86_400),
        s => interval(s),
    }
}

fn explained(path: &str, config: &Config) -> String {
    let settings = settings(config);
    let mut out = String::new();
    let wide = settings.iter().map(|(_, value, _)| value.chars().count().min(40)).max().unwrap_or(0);
    for (key, value, line) in settings {
        let origin = line.map_or("default".to_owned(), |line| format!("{path}:{line}"));
        let _ = writeln!(out, "{key:<21} {:<wide$}  {origin}", printable(&value));
    }
    let plan = config.plan();
    let charts = counted(config.charts.len(), "chart");
    let triggers = config.counted_triggers();
    let _ = writeln!(out, "\n{}, {charts}{triggers}", counted(plan.len(), "subscription"));
    let rows: Vec<[String; 3]> = plan.iter().map(row).collect();
    let widths =
        [0, 1].map(|column| rows.iter().map(|row| row[column].chars().count().min(44)).max().unwrap_or(0));
    for [name, scope, functions] in rows {
        let _ = writeln!(out, "  {name:<0$}  {scope:<1$}  {functions}", widths[0], widths[1]);
    }
    out
}

/// A subscription as name, scope and functions.
fn row(spec: &SubscriptionSpec) -> [String; 3] {
    let name = match &spec.chart {
        Some(chart) => format!("{chart} / {}", spec.name),
        None => spec.name.clone(),
    };
    let functions: Vec<String> = spec.functions.iter().map(written).collect();
    let scope = match spec.level {
        _ if spec.remainder => "packets that no other line matches",
        Level::Record if spec.expression.trim().is_empty() => "every record",
        _ => every(&spec.expression),
    };
    let level = match spec.level {
        Level::Packet => "",
        Level::Stream => ", by stream",
        Level::Flow => ", by flow",
        Level::Record => ", by record",
    };
    [printable(&name), printable(&format!("{scope}{level}")), printable(&functions.join(", "))]
}

fn every(expression: &str) -> &str {
    if expression.trim().is_empty() { "every packet" } else { expression }
}

/// Seconds in the largest unit that gives a whole number.
fn interval(seconds: u64) -> String {
    match seconds {
        s if s.is_multiple_of(3600) => format!("{}h", s / 3600),
        s if s.is_multiple_of(60) => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// Bytes in the largest unit that gives a whole number.
fn memory(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let fits = units.iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift));
    fits.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}
