//! Checks that expressions apply to the link types of captures. For example, no packet of a link type without VLAN tags
//! can match `vlan`, and a count of 0 would hide that no packet was tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weir_capture::{Files, Input, InterfaceInfo, Order, ReadOptions};
use weir_engine::Plan;
use weir_filter::{ErrorKind, FilterError};
use weir_wire::{LinkType, PacketBuf};

/// The inputs of a run, each with the link types of its packets.
#[derive(Debug, Default)]
pub struct Links(Vec<(String, Vec<LinkType>)>);

impl Links {
    /// The link types at the start of inputs. Empty for inputs that can be read only once, and for unreadable inputs,
    /// which are reported when they are read.
    pub fn ahead(files: &Files) -> Self {
        let inputs = files.describe().map(|info| {
            let known = if info.links.is_empty() { begins_with(&info.name) } else { info.links.clone() };
            (info.name.clone(), known)
        });
        Self(inputs.collect())
    }

    /// The link types of the captured interfaces.
    pub fn of_interfaces(interfaces: &[InterfaceInfo]) -> Self {
        let named = |info: &InterfaceInfo| (info.name.clone().unwrap_or_default(), vec![info.link]);
        Self(interfaces.iter().map(named).collect())
    }

    /// The link types of the inputs that have been read.
    pub fn read(files: &Files) -> Self {
        Self(files.describe().map(|info| (info.name.clone(), info.links.clone())).collect())
    }
}

/// The link types of a file before its first packet; empty if it is not a regular file.
fn begins_with(name: &str) -> Vec<LinkType> {
    let path = Path::new(name);
    if !path.is_file() {
        return Vec::new();
    }
    let options = ReadOptions {
        chunk_bytes: 16 << 10,
        order: Order::Listed,
        packets: Some(1),
        snaplen: Some(0),
        ..ReadOptions::default()
    };
    let Ok(mut files) = Files::open(&[Input::Path(PathBuf::from(path))], &options) else { return Vec::new() };
    // Errors are reported when the file is read.
    let _ = files.fill(&mut PacketBuf::default());
    files.describe().next().map_or(Vec::new(), |info| info.links.clone())
}

/// Expressions of a run that do not apply to its inputs.
#[derive(Debug, Default)]
pub struct Misfits {
    /// One text per input and expression that do not fit.
    pub complaints: Vec<String>,
    /// Expressions that no packet of any input can match.
    pub nowhere: BTreeSet<String>,
}

impl Misfits {
    /// Compares the expressions of subscriptions with the link types.
    pub fn of_subscriptions(links: &Links, plan: &Plan) -> Self {
        Self::new(links, |link| plan.errors(link))
    }

    /// Compares the expression of the run with the link types.
    pub fn of_scope(links: &Links, plan: &Plan) -> Self {
        Self::new(links, |link| plan.scope().and_then(|filter| filter.error(link)).into_iter().collect())
    }

    fn new(links: &Links, errors: impl Fn(LinkType) -> Vec<FilterError>) -> Self {
        let mut by_link: BTreeMap<LinkType, Vec<FilterError>> = BTreeMap::new();
        for link in links.0.iter().flat_map(|(_, links)| links) {
            by_link.entry(*link).or_insert_with(|| errors(*link));
        }
        let texts = |of: &Vec<FilterError>| of.iter().map(|e| e.expression.clone()).collect::<BTreeSet<_>>();
        let nowhere = by_link.values().map(texts).reduce(|all, of| &all & &of).unwrap_or_default();
        let mut complaints = Vec::new();
        for (name, links) in &links.0 {
            for link in links {
                for error in by_link.get(link).into_iter().flatten() {
                    // That no packet of this input can match is an error only if no packet of the other inputs can
                    // either.
                    if error.kind != ErrorKind::RejectsAll || nowhere.contains(&error.expression) {
                        complaints.push(format!("{name}: link type {link}: {error}"));
                    }
                }
            }
        }
        Self { complaints, nowhere }
    }
}
