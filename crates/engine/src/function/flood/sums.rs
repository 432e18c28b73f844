//! The function with which each run finds floods: its sums take little memory, do not depend on the number of workers, and are for the
//! judge alone.

use super::{Kind, More, Subject, judge, of_item};
use crate::Item;
use crate::function::top::ip;
use crate::function::{Function, FunctionSpec, InputKind, Memory};
use crate::keyed::{KeyHash, Keyed};
use weir_api::{FloodKey, FloodSums, Level, Reading};

pub(in crate::function) static FLOODED: FunctionSpec = FunctionSpec {
    name: "flooded",
    help: "Finds floods among all packets. No output has its reading.",
    arguments: &[],
    levels: &[Level::Packet],
    input: InputKind::Control,
    memory: |_| Ok(Memory { state: 512 + FloodSums::MEMORY, reading: 64 + FloodSums::MEMORY }),
    judge: Some(|_, _| Ok(Box::new(judge::Floods))),
    delivers: None,
    identifies: false,
    build: |arguments| {
        Ok(Box::new(FloodsOfRun { sums: FloodSums::default(), hash: KeyHash::new(arguments.seeds.run) }))
    },
};

struct FloodsOfRun {
    sums: FloodSums,
    hash: KeyHash,
}

impl FloodsOfRun {
    fn key(&self, subject: Subject) -> FloodKey {
        let has_port = !matches!(subject.kind, Kind::Fragment | Kind::Icmp);
        FloodKey {
            hash: subject.hash(&self.hash),
            host: ip(subject.host),
            kind: subject.kind.name(),
            protocol: subject.protocol,
            port: has_port.then_some(subject.port),
            of_sender: subject.kind.service(subject.port).is_some(),
        }
    }
}

impl Function for FloodsOfRun {
    fn item(&mut self, item: &Item<'_>) {
        let Some((subject, more)) = of_item(item) else { return };
        let key = self.key(subject);
        match more {
            More::From(source, count) => {
                self.sums.received(&key, self.hash.of(source), count.packets, count.bytes);
            }
            More::Answered(packets) => self.sums.answered(&key, packets),
        }
    }

    fn held(&self) -> usize {
        self.sums.memory()
    }

    fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    fn take(&mut self) -> Reading {
        Reading::Flooded(self.sums.take())
    }
}
