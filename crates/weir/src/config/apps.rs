//! The tables `[[app]]`: applications by the ports of their servers and by what a side of a flow says first.

use super::fault::Fault;
use super::read::{ConfigReader, Key, Node};
use super::{Config, Unique, require};
use weir_engine::{OwnApp, OwnApps};

static KEYS: [Key<OwnApp>; 4] = [
    Key {
        name: "name",
        takes: "1 to 16 lower-case letters, digits, hyphens and underscores, such as \"chess\"",
        read: |r, node, app| app.name = r.name(node).unwrap_or_default(),
    },
    Key {
        name: "flag",
        takes: "a letter, such as \"C\"",
        read: |r, node, app| {
            let Some(text) = r.string(node) else { return };
            match text.parse() {
                Ok(flag) => app.flag = flag,
                Err(_) => r.refuse(node.span(), "the flag is not one letter"),
            }
        },
    },
    Key {
        name: "ports",
        takes: "a list of ports, such as [5000, 5001]",
        read: |r, node, app| {
            let ports = r.array(node).iter().filter_map(|port| r.integer(port, 1, u16::MAX.into()));
            app.ports = ports.filter_map(|port| port.try_into().ok()).collect();
        },
    },
    Key {
        name: "first",
        takes: "a regular expression over the first 256 bytes of a side, such as '^CHESS/[0-9]'",
        read: |r, node, app| app.first = r.string(node).map(str::to_owned),
    },
];

pub(super) fn read(r: &mut ConfigReader<'_>, node: &Node<'_>, config: &mut Config) {
    let mut seen = Unique::new("app");
    let faults = r.faults.len();
    for element in r.array(node) {
        let Some(table) = r.table(element) else { continue };
        let mut app = OwnApp { name: String::new(), flag: 'A', ports: Vec::new(), first: None };
        let before = r.faults.len();
        r.fill(table, &KEYS, &mut app);
        require(r, table, element.span(), "this app", &["name", "flag"]);
        let at = |key: &str| table.get(key).map_or(element.span(), |node| node.span());
        if r.faults.len() > before || !seen.is_new(r, &app.name, at("name")) {
            continue;
        }
        match app.check() {
            Ok(()) => config.apps.push(app),
            Err(error) => {
                let key = if error.contains("pattern") { "first" } else { "name" };
                r.faults.push(Fault::new(at(key), error.replace('`', "")));
            }
        }
    }
    // What is wrong with all together has no line of its own.
    if r.faults.len() == faults
        && let Err(error) = OwnApps::new(config.apps.clone())
    {
        r.faults.push(Fault::new(node.span(), error.replace('`', "")));
    }
}
