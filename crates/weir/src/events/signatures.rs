//! The port signatures of a run: those that its store does not know are findings.

use std::collections::BTreeMap;
use std::mem;
use weir_api::event::NEW_SIGNATURE;
use weir_api::{Event, Folded, Reading, Shown, Snapshot, Subject};
use weir_output::{PortSignature, Worms};
use weir_store::Signatures;

/// Finds new port signatures in the lists of SYNs of whole intervals.
#[derive(Default)]
pub struct NewSignatures {
    known: Option<Box<dyn Signatures>>,
    worms: Worms,
    /// Whether the last attempt to note signatures failed.
    is_failing: bool,
}

impl NewSignatures {
    /// Compares with these, and notes what it finds there. `worms` says which hosts may be worms.
    pub fn of(known: Box<dyn Signatures>, worms: Worms) -> Self {
        Self { known: Some(known), worms, is_failing: false }
    }

    /// The findings in an interval whose readings are merged over all workers.
    pub fn find(&mut self, snapshot: &Snapshot) -> Vec<Event> {
        let Some(known) = &mut self.known else { return Vec::new() };
        // Two lists may have one host.
        let mut all: BTreeMap<PortSignature, u64> = BTreeMap::new();
        for answer in &snapshot.answers {
            let Reading::Table(table) = &answer.reading else { continue };
            if !matches!(table.schema.shown, Shown::Syn(_)) {
                continue;
            }
            for (signature, hosts) in self.worms.signatures(table) {
                let most = all.entry(signature).or_default();
                *most = hosts.max(*most);
            }
        }
        let found: Vec<(String, u64)> =
            all.into_iter().map(|(signature, hosts)| (signature.to_string(), hosts)).collect();
        let interval = snapshot.interval;
        match known.see(&found, (interval.start, interval.end)) {
            Ok(new) => {
                self.is_failing = false;
                let hosts: BTreeMap<String, u64> = found.into_iter().collect();
                let event = |ports: String| {
                    let hosts = Folded::Max(hosts.get(&ports).copied());
                    let subject = Subject::Key(ports.into());
                    Event::over(&NEW_SIGNATURE, subject, interval).with("hosts", "hosts", hosts)
                };
                new.into_iter().map(event).collect()
            }
            Err(error) => {
                if !mem::replace(&mut self.is_failing, true) {
                    eprintln!("weir: port signatures are not kept: {error}");
                }
                Vec::new()
            }
        }
    }
}
