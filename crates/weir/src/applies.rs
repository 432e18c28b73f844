//! Which expressions apply to which captures: of a link type that has no VLAN tags no packet can match `vlan`, and
//! counting none would hide that nothing was looked at.

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
    /// What inputs begin with. Those that can be read only once have none yet, and so have those that cannot be read:
    /// that is reported when their turn comes.
    pub fn ahead(files: &Files) -> Self {
        let inputs = files.describe().map(|info| {
            let known = if info.links.is_empty() { begins_with(&info.name) } else { info.links.clone() };
            (info.name.clone(), known)
        });
        Self(inputs.collect())
    }

    /// The link types of interfaces that are listened to.
    pub fn of_interfaces(interfaces: &[InterfaceInfo]) -> Self {
        let named = |info: &InterfaceInfo| (info.name.clone().unwrap_or_default(), vec![info.link]);
        Self(interfaces.iter().map(named).collect())
    }

    /// What was read.
    pub fn read(files: &Files) -> Self {
        Self(files.describe().map(|info| (info.name.clone(), info.links.clone())).collect())
    }
}

/// The link types that a file has before its first packet; none where it is no regular file.
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
    // What is wrong with it is reported when it is read.
    let _ = files.fill(&mut PacketBuf::default());
    files.describe().next().map_or(Vec::new(), |info| info.links.clone())
}

/// What of a run does not apply.
#[derive(Debug, Default)]
pub struct Misfits {
    /// One text for each input and expression that do not go together.
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
                    // That none of these packets can match is no fault where others can.
                    if error.kind != ErrorKind::RejectsAll || nowhere.contains(&error.expression) {
                        complaints.push(format!("{name}: link type {link}: {error}"));
                    }
                }
            }
        }
        Self { complaints, nowhere }
    }
}
