//! The table `[rules]`: rules that look at flows, as -S reads them.

use super::Setting;
use super::read::{ConfigReader, Key, Node};
use crate::cli::RuleOptions;
use std::path::PathBuf;
use toml::de::DeTable;

/// Rules, and how they are read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RuleSettings {
    /// Rule files, and directories of such.
    pub files: Setting<Vec<PathBuf>>,
    /// Variables of addresses and ports, as `NAME=VALUE`.
    pub variables: Setting<Vec<String>>,
    /// The thresholds of the user.
    pub threshold_config: Setting<Option<PathBuf>>,
    /// The names of categories of reputations.
    pub categories: Setting<Option<PathBuf>>,
    /// Reputations of addresses.
    pub reputation: Setting<Vec<PathBuf>>,
    /// The countries of addresses.
    pub geoip: Setting<Option<PathBuf>>,
    /// How rare literals are.
    pub rarity: Setting<Option<PathBuf>>,
    /// Whether alerts have payload.
    pub alert_payload: Setting<bool>,
    /// Suricata's configuration.
    pub suricata_config: Setting<Option<PathBuf>>,
    /// Keys of it that are set, as `KEY=VALUE`.
    pub suricata_set: Setting<Vec<String>>,
    /// Whether the run judges as if packets were dropped.
    pub simulate_ips: Setting<bool>,
}

impl RuleSettings {
    /// The rules of a run: those of the command line, or else these.
    pub fn or_given(&self, given: &RuleOptions) -> RuleOptions {
        if !given.rules.is_empty() {
            return given.clone();
        }
        RuleOptions {
            rules: self.files.value.clone(),
            rule_var: self.variables.value.clone(),
            alert_payload: self.alert_payload.value,
            threshold_config: self.threshold_config.value.clone(),
            suricata_config: self.suricata_config.value.clone(),
            suricata_set: self.suricata_set.value.clone(),
            simulate_ips: self.simulate_ips.value,
            rule_categories: self.categories.value.clone(),
            rule_reputation: self.reputation.value.clone(),
            rule_geoip: self.geoip.value.clone(),
            no_prefilter: given.no_prefilter,
            rule_rarity: self.rarity.value.clone(),
        }
    }
}

pub(super) static KEYS: [Key<RuleSettings>; 11] = [
    Key {
        name: "files",
        takes: "a list of rule files and directories, such as [\"/etc/weir/rules\"]",
        read: |r, node, rules| list(r, node, &mut rules.files, |r, path| r.path(path)),
    },
    Key {
        name: "variables",
        takes: "a list of variables, such as [\"HOME_NET=[10.0.0.0/8]\"]",
        read: |r, node, rules| {
            list(r, node, &mut rules.variables, |r, one| r.parsed(one, |text| pair(text, "NAME=VALUE")));
        },
    },
    Key {
        name: "threshold_config",
        takes: "a file, such as \"/etc/weir/threshold.config\"",
        read: |r, node, rules| r.set_path(node, &mut rules.threshold_config),
    },
    Key {
        name: "categories",
        takes: "a file, such as \"/etc/weir/categories.txt\"",
        read: |r, node, rules| r.set_path(node, &mut rules.categories),
    },
    Key {
        name: "reputation",
        takes: "a list of files, such as [\"/etc/weir/reputation.list\"]",
        read: |r, node, rules| list(r, node, &mut rules.reputation, |r, path| r.path(path)),
    },
    Key {
        name: "geoip",
        takes: "a file, such as \"/etc/weir/country.mmdb\"",
        read: |r, node, rules| r.set_path(node, &mut rules.geoip),
    },
    Key {
        name: "rarity",
        takes: "a file of `weir rules train`, such as \"/etc/weir/rarity.bin\"",
        read: |r, node, rules| r.set_path(node, &mut rules.rarity),
    },
    Key {
        name: "alert_payload",
        takes: "true or false",
        read: |r, node, rules| {
            let value = r.boolean(node);
            r.set(node, value, &mut rules.alert_payload);
        },
    },
    Key {
        name: "suricata_config",
        takes: "a file, such as \"/etc/suricata/suricata.yaml\"",
        read: |r, node, rules| r.set_path(node, &mut rules.suricata_config),
    },
    Key {
        name: "suricata_set",
        takes: "a list of keys with values, such as [\"stream.midstream=true\"]",
        read: |r, node, rules| {
            list(r, node, &mut rules.suricata_set, |r, one| r.parsed(one, |text| pair(text, "KEY=VALUE")));
        },
    },
    Key {
        name: "simulate_ips",
        takes: "true or false",
        read: |r, node, rules| {
            let value = r.boolean(node);
            r.set(node, value, &mut rules.simulate_ips);
        },
    },
];

/// Adds the members of a list to its setting, each read by `read`. Members with an error are left out.
fn list<T>(
    r: &mut ConfigReader<'_>,
    node: &Node<'_>,
    to: &mut Setting<Vec<T>>,
    read: impl Fn(&mut ConfigReader<'_>, &Node<'_>) -> Option<T>,
) {
    to.line = Some(r.line(node.span().start));
    for one in r.array(node) {
        to.value.extend(read(r, one));
    }
}

/// A text with `=` between two parts that are not empty. `form` says so to the user.
fn pair(text: &str, form: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not {form}")),
    }
}

/// Refuses settings without rules.
pub(super) fn check(r: &mut ConfigReader<'_>, table: &DeTable<'_>) {
    r.refuse_without(
        table,
        ("files", "rule files", "files = [\"DIR\"]"),
        &[
            "variables",
            "threshold_config",
            "alert_payload",
            "suricata_config",
            "suricata_set",
            "simulate_ips",
            "categories",
            "reputation",
            "geoip",
            "rarity",
        ],
    );
    r.refuse_without(table, ("categories", "names of categories", "categories = \"FILE\""), &["reputation"]);
}
