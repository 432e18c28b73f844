//! Triggers: events that each write a packet file with the packets from before they began.
//!
//! A trigger is a subscription whose chain ends in `event`, and what is written when such an event begins. The collector decides,
//! where an interval is complete. A run over files then reads the captures again, as a further pass, and writes the packets of all
//! files that were opened: they depend on the packets alone, and not on the number of workers. In a run over links each worker keeps
//! its latest packets, and sends those that a file asks for to a thread that writes.

mod again;
mod board;
mod file;
mod kept;
mod live;
mod orders;
mod preroll;

pub use again::{Captures, write_files};
pub use board::{Board, State};
pub use kept::{files_of, time_of};
pub use live::{LiveDumps, LiveWith};
pub use orders::Arrival;
pub use preroll::{Preroll, held, least, snaplen_of};

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use weir_api::event::FINDING;
use weir_api::{Event, EventState, FunctionCall, Interval, Ledger, Level, Subject, SubscriptionSpec};
use weir_engine::{DROPS, window_of};
use weir_output::TriggerThreshold;
use weir_output::figures::{count, counted};

const SECOND: u64 = 1_000_000_000;

/// Maximum number of files of a run over files.
const MAX_FILES: usize = 4_096;

/// How the names of the subscriptions of triggers begin; that of the trigger follows.
pub const OF_TRIGGER: &str = "trigger ";

/// A trigger of the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerSpec {
    /// Its name, with which the names of its files begin.
    pub name: String,
    /// Whose events open files.
    pub decided: Decided,
    /// What is written.
    pub dump: DumpSpec,
}

/// Whose events open the files of a trigger.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decided {
    /// Those of a subscription of its own.
    By(SubscriptionSpec),
    /// Those of the packets that the run lost, which the ledger counts: a call of the function `event`.
    ByDrops {
        /// The name of the subscription that the events are of.
        name: String,
        /// The call.
        event: FunctionCall,
    },
    /// Those of others, by their name.
    Elsewhere(String),
}

/// The packets of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DumpSpec {
    /// The expression of the packets, with [`PLACEHOLDERS`]; `None` for that of the event and of its subscription.
    pub filter: Option<String>,
    /// Nanoseconds before the beginning of the event from which on packets are written.
    pub before: u64,
    /// Nanoseconds after the beginning of the event up to which packets are written.
    pub after: u64,
    /// Maximum number of packets of a file.
    pub packets: u64,
    /// Maximum bytes of the packets of a file.
    pub bytes: u64,
    /// Bytes of a packet that are written; 0 for all.
    pub snaplen: u32,
    /// Maximum number of files: a run over files writes the first ones, and over a link the oldest are removed.
    pub files: u32,
    /// Maximum bytes of all files of the trigger in the directory; `None` without a limit. Files leave, or are not written, as with
    /// `files`.
    pub limit: Option<u64>,
    /// The directory.
    pub to: PathBuf,
}

impl Default for DumpSpec {
    fn default() -> Self {
        Self {
            filter: None,
            before: 5 * SECOND,
            after: 60 * SECOND,
            packets: 100_000,
            bytes: 100 << 20,
            snaplen: 0,
            files: 100,
            limit: None,
            to: PathBuf::new(),
        }
    }
}

/// What stands for a part of the subject of an event in an expression.
pub const PLACEHOLDERS: [&str; 4] = ["{host}", "{peer}", "{port}", "{proto}"];

/// The values of [`PLACEHOLDERS`].
pub type Filling = [Option<String>; 4];

/// A filling for checks of expressions.
pub static EXAMPLE: std::sync::LazyLock<Filling> =
    std::sync::LazyLock::new(|| ["192.0.2.1", "192.0.2.2", "1", "tcp"].map(|text| Some(text.to_owned())));

/// An expression with the values of its placeholders.
///
/// # Errors
/// The subject has no such value.
pub fn filled(text: &str, filling: &Filling) -> Result<String, String> {
    let mut out = text.to_owned();
    for (placeholder, value) in PLACEHOLDERS.iter().zip(filling) {
        match value {
            _ if !out.contains(placeholder) => {}
            Some(value) => out = out.replace(placeholder, value),
            None => return Err(format!("the subject of the event has no {placeholder}")),
        }
    }
    Ok(out)
}

/// The host of a subject: the one that acts, to which all is done, or with which the key of a row begins.
fn host_of(subject: &Subject) -> Option<IpAddr> {
    match subject {
        Subject::Key(text) => {
            let first = text.split(' ').next().unwrap_or_default();
            first.parse().ok().or_else(|| first.parse::<SocketAddr>().ok().map(|end| end.ip()))
        }
        Subject::Target { target, .. } => Some(*target),
        subject => subject.source(),
    }
}

/// The values of a subject.
fn filling(subject: &Subject) -> Filling {
    let protocol = |number: u8| match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        132 => "sctp".to_owned(),
        number => format!("proto {number}"),
    };
    [
        host_of(subject).map(|host| host.to_string()),
        subject.target().map(|host| host.to_string()),
        subject.port().map(|(_, port)| port.to_string()),
        subject.port().map(|(number, _)| protocol(number)),
    ]
}

impl TriggerSpec {
    /// Whether an event opens a file.
    fn is_by(&self, event: &Event) -> bool {
        match &self.decided {
            // What its list finds by itself, as floods, is of another kind.
            Decided::By(SubscriptionSpec { name, .. }) | Decided::ByDrops { name, .. } => {
                *event.kind == FINDING
                    && event.origin.as_ref().is_some_and(|origin| *origin.subscription == **name)
            }
            Decided::Elsewhere(name) => event.name() == name,
        }
    }

    /// The name of the subscription whose events are its own.
    fn judged(&self) -> Option<&str> {
        match &self.decided {
            Decided::By(SubscriptionSpec { name, .. }) | Decided::ByDrops { name, .. } => Some(name),
            Decided::Elsewhere(_) => None,
        }
    }

    /// The call of `event` that decides; `None` if the events of others do.
    pub fn judging(&self) -> Option<&FunctionCall> {
        match &self.decided {
            Decided::By(subscription) => subscription.functions.iter().find(|call| call.name == "event"),
            Decided::ByDrops { event, .. } => Some(event),
            Decided::Elsewhere(_) => None,
        }
    }

    /// What its number is compared with; `None` if the events of others decide.
    pub fn threshold(&self) -> Option<TriggerThreshold> {
        let arguments = &self.judging()?.arguments;
        let argument = |name: &str| arguments.iter().find(|(known, _)| known == name);
        let above = argument("above");
        let (_, threshold) = above.or_else(|| argument("below"))?;
        Some(TriggerThreshold {
            name: self.name.clone(),
            subscription: self.judged()?.to_owned(),
            threshold: threshold.clone(),
            is_below: above.is_none(),
        })
    }

    /// Whether the packets that the run lost decide.
    pub fn is_of_drops(&self) -> bool {
        matches!(self.decided, Decided::ByDrops { .. })
    }

    /// The subscription that it has of its own.
    pub fn subscription(&self) -> Option<&SubscriptionSpec> {
        match &self.decided {
            Decided::By(subscription) => Some(subscription),
            Decided::ByDrops { .. } | Decided::Elsewhere(_) => None,
        }
    }

    /// The expression of the packets of an event.
    ///
    /// # Errors
    /// The subject of the event lacks what the expression of the trigger has.
    fn expression(&self, event: &Event) -> Result<String, String> {
        if let Some(filter) = &self.dump.filter {
            return filled(filter, &filling(&event.subject));
        }
        let of_packets = |subscription: &&SubscriptionSpec| {
            subscription.level == Level::Packet && !subscription.expression.is_empty()
        };
        let own = self.subscription().filter(of_packets).map(|one| one.expression.clone());
        let of_event = event.expression().or_else(|| Some(format!("host {}", host_of(&event.subject)?)));
        Ok(match (of_event, own) {
            (Some(of_event), Some(own)) => format!("({of_event}) and ({own})"),
            (one, other) => one.or(other).unwrap_or_default(),
        })
    }

    /// Nanoseconds that are compared with its threshold as a whole; `None` for an interval of the run, or for the events of others.
    pub fn over(&self) -> Option<u64> {
        self.judging().and_then(window_of)
    }

    /// What decided, in words: the functions and their threshold.
    fn formula(&self) -> String {
        self.words(|_| true)
    }

    /// What is compared with its threshold, in words.
    pub fn measured(&self) -> String {
        let measured = self.words(|call| call.name != "event");
        match self.over() {
            Some(over) => format!("{measured} in {} s", over as f64 / SECOND as f64),
            None => measured,
        }
    }

    /// The unit of what is compared, if the function has one.
    pub fn unit(&self) -> &str {
        match &self.decided {
            Decided::By(subscription) => {
                let mut names = subscription.functions.iter().map(|call| &*call.name);
                names.find(|name| matches!(*name, "packets" | "bytes")).unwrap_or_default()
            }
            Decided::ByDrops { .. } => "packets",
            Decided::Elsewhere(_) => "",
        }
    }

    /// The calls that are shown, and the expression of their packets.
    fn words(&self, is_shown: impl Fn(&FunctionCall) -> bool) -> String {
        let call = |call: &FunctionCall| {
            let arguments = call.arguments.iter().map(|(name, value)| format!(" {name} {value}"));
            arguments.fold(call.name.clone(), |text, argument| text + &argument)
        };
        let shown = |calls: &[FunctionCall]| {
            calls.iter().filter(|call| is_shown(call)).map(call).collect::<Vec<String>>().join(", ")
        };
        let subscription = match &self.decided {
            Decided::By(subscription) => subscription,
            Decided::ByDrops { event, .. } => {
                let event = shown(std::slice::from_ref(event));
                return if event.is_empty() { DROPS.to_owned() } else { format!("{DROPS}, {event}") };
            }
            Decided::Elsewhere(name) => return format!("event {name}"),
        };
        match (shown(&subscription.functions), &*subscription.expression) {
            (calls, "") => calls,
            (calls, expression) => format!("{calls} where {expression}"),
        }
    }
}

/// Whether a live run with triggers can go on with others: it has rings, which keep what it began with, and it may write to the
/// directories that it has opened. `interval` is that of the run, in nanoseconds.
pub fn may_follow(now: &[TriggerSpec], next: &[TriggerSpec], interval: u64) -> bool {
    let reach = |all: &[TriggerSpec]| {
        let reaches = all.iter().map(|one| one.dump.before + one.over().unwrap_or(interval));
        reaches.max().unwrap_or_default()
    };
    let length = |all: &[TriggerSpec]| match snaplen_of(all) {
        0 => u32::MAX,
        length => length,
    };
    let is_open = |one: &TriggerSpec| now.iter().any(|known| known.dump.to == one.dump.to);
    // Windows of subscriptions are checked where these are compiled.
    let has_tenths = |all: &[TriggerSpec]| {
        let mut of_drops = all.iter().filter(|one| one.is_of_drops()).filter_map(TriggerSpec::over);
        of_drops.any(|over| !over.is_multiple_of(SECOND))
    };
    let is_kept = || {
        reach(next) <= reach(now)
            && length(next) <= length(now)
            && has_tenths(next) <= has_tenths(now)
            && next.iter().all(is_open)
    };
    next.is_empty() || !now.is_empty() && is_kept()
}

/// A file that an event has opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The trigger.
    pub trigger: Arc<TriggerSpec>,
    /// The event, as it began.
    pub event: Event,
    /// The ledger of a run over links up to the interval in which the event was found.
    pub ledger: Option<Ledger>,
}

/// What the triggers of a run have written.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of files.
    pub files: u64,
    /// Number of the packets in them.
    pub packets: u64,
    /// Number of files that a limit of packets or bytes ended.
    pub full: u64,
    /// Number of events of which no packet was found.
    pub empty: u64,
    /// Number of events that opened no file, because there were too many.
    pub refused: u64,
    /// Number of packets that were lost on the way to a file.
    pub lost: u64,
    /// Number of older files that were removed, so that there was room for these.
    pub removed: u64,
    /// The directories.
    pub directories: BTreeSet<PathBuf>,
    /// What failed, in words.
    pub failed: Vec<String>,
}

impl Outcome {
    /// A line for the summary; `None` if no trigger has opened a file.
    pub fn note(&self) -> Option<String> {
        let Self { files, packets, full, empty, refused, lost, removed, directories, failed } = self;
        if *files == 0 && *empty == 0 && *refused == 0 && failed.is_empty() {
            return None;
        }
        let mut note = counted(*files, "packet file") + " of triggers";
        if *files > 0 {
            note += &format!(", {}", counted(*packets, "packet"));
        }
        let failed = failed.len() as u64;
        let others = [
            (*full, "full"),
            (*empty, "without packets"),
            (*refused, "too many"),
            (*lost, "packets LOST"),
            (*removed, "older ones removed"),
            (failed, "FAILED"),
        ];
        others
            .iter()
            .filter(|(n, _)| *n > 0)
            .for_each(|(n, what)| note += &format!(", {} {what}", count(*n)));
        // A long path is cut where a line ends.
        let folders: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
        if *files > 0 {
            note += &format!(", in {}", folders.join(" and "));
        }
        Some(note)
    }
}

/// The triggers of a run, and what they have opened.
#[derive(Default)]
pub struct Triggers {
    specs: Vec<Arc<TriggerSpec>>,
    /// What readers of the run see.
    board: Option<Arc<Board>>,
    /// Where the files of a run over links are written.
    live: Option<LiveDumps>,
    /// The files of a run over files, which are written after the pass.
    opened: Vec<Opened>,
    /// Number of events for which there was no room.
    refused: u64,
    /// The sum of the ledgers of the intervals so far.
    ledger: Ledger,
    /// Number of intervals so far.
    intervals: u64,
    /// The ledgers of workers in intervals that have not ended, by the beginnings of these.
    ahead: BTreeMap<(u64, usize), Ledger>,
}

impl Triggers {
    /// Triggers that have opened nothing.
    pub fn new(specs: &[TriggerSpec]) -> Self {
        Self { specs: specs.iter().cloned().map(Arc::new).collect(), ..Self::default() }
    }

    /// Goes on with these triggers. The files of others stay open until they have their packets.
    pub fn change(&mut self, specs: &[TriggerSpec]) {
        let known = |spec: &TriggerSpec| self.specs.iter().find(|known| ***known == *spec).cloned();
        let next = specs.iter().map(|spec| known(spec).unwrap_or_else(|| Arc::new(spec.clone())));
        let next: Vec<Arc<TriggerSpec>> = next.collect();
        if let Some(board) = &self.board {
            board.change_triggers(&next);
        }
        self.specs = next;
    }

    /// The triggers.
    pub fn specs(&self) -> &[Arc<TriggerSpec>] {
        &self.specs
    }

    /// The calls of the function `event` that judge what the run lost, with the names of their subscriptions.
    pub fn of_drops(&self) -> impl Iterator<Item = (&FunctionCall, &str)> {
        self.specs.iter().filter_map(|trigger| match &trigger.decided {
            Decided::ByDrops { name, event } => Some((event, &**name)),
            _ => None,
        })
    }

    /// Adds the ledger of an interval, before its events.
    pub fn count(&mut self, interval: Interval, ledger: &Ledger) {
        self.ahead.retain(|(start, _), _| *start >= interval.end);
        self.ledger.add(ledger);
        self.intervals += 1;
        self.show_ledger();
    }

    /// Takes the ledger so far of a worker in an interval that has not ended, before its events. `start` is the beginning of the
    /// interval.
    pub fn count_ahead(&mut self, worker: usize, start: u64, ledger: &Ledger) {
        self.ahead.insert((start, worker), *ledger);
        self.show_ledger();
    }

    fn show_ledger(&self) {
        if let Some(live) = &self.live {
            live.count(self.ledger(), self.intervals);
        }
    }

    /// The ledger of the run so far.
    fn ledger(&self) -> Ledger {
        self.ahead.values().fold(self.ledger, |mut sum, ledger| {
            sum.add(ledger);
            sum
        })
    }

    /// Notes what the latest whole interval of each trigger came to, by the name of its subscription.
    pub fn measure(&self, latest: impl Fn(&str) -> Option<u64>) {
        if let Some(board) = &self.board {
            board.measure(|trigger| latest(trigger.judged()?));
        }
    }

    /// Opens files for an event that begins.
    pub fn event(&mut self, event: &Event) {
        if let Some(board) = &self.board {
            board.event(event);
        }
        if event.state != EventState::Begin {
            return;
        }
        let ledger = self.ledger();
        let Self { specs, live, opened, refused, .. } = self;
        for trigger in specs.iter().filter(|trigger| trigger.is_by(event)) {
            let ledger = live.is_some().then_some(ledger);
            let this = Opened { trigger: Arc::clone(trigger), event: event.clone(), ledger };
            let has_room = match live {
                Some(live) => live.open(&this),
                None => {
                    let of_trigger = opened.iter().filter(|one| Arc::ptr_eq(&one.trigger, trigger)).count();
                    let has_room = opened.len() < MAX_FILES && of_trigger < trigger.dump.files as usize;
                    opened.extend(has_room.then_some(this));
                    has_room
                }
            };
            *refused += u64::from(!has_room);
        }
    }

    /// Keeps what they do at present on a board, from now on.
    pub fn show(&mut self, board: Arc<Board>) {
        self.board = Some(board);
    }

    /// Writes the files of a run over links, from now on.
    pub fn write_at_once(&mut self, live: LiveDumps) {
        self.live = Some(live);
    }

    /// Ends the files of a run over links.
    pub fn finish(self) -> Outcome {
        let outcome = self.live.map(LiveDumps::finish).unwrap_or_default();
        Outcome { refused: outcome.refused + self.refused, ..outcome }
    }

    /// What was opened, and the number of events for which there was no room.
    pub fn take(&mut self) -> (Vec<Opened>, u64) {
        (std::mem::take(&mut self.opened), std::mem::take(&mut self.refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::event::PORT_SCAN;
    use weir_filter::Options;

    fn trigger(filter: Option<&str>) -> TriggerSpec {
        TriggerSpec {
            name: "x".to_owned(),
            decided: Decided::By(SubscriptionSpec::new("trigger x", "tcp port 80", Vec::new())),
            dump: DumpSpec { filter: filter.map(str::to_owned), ..DumpSpec::default() },
        }
    }

    fn event(subject: Subject) -> Event {
        Event::at(&PORT_SCAN, subject, 7)
    }

    #[test]
    fn placeholders_are_those_of_the_subject() {
        let [source, target] = ["10.0.0.9", "2001:db8::1"].map(|text| text.parse().unwrap());
        let pair = event(Subject::Pair { source, target });
        let port = event(Subject::Port { source, protocol: 17, port: 53 });
        let all = event(Subject::Key("all".into()));
        let expression = |filter, event| trigger(filter).expression(event);
        assert_eq!(
            expression(Some("host {host} and {peer}"), &pair).unwrap(),
            "host 10.0.0.9 and 2001:db8::1"
        );
        assert_eq!(
            expression(Some("{proto} dst port {port} and src {host}"), &port).unwrap(),
            "udp dst port 53 and src 10.0.0.9"
        );
        assert_eq!(expression(Some("arp"), &all).unwrap(), "arp");
        assert_eq!(
            expression(Some("host {host}"), &all).unwrap_err(),
            "the subject of the event has no {host}"
        );
        assert_eq!(expression(None, &all).unwrap(), "tcp port 80");
        for (key, host) in [
            ("10.10.10.10 syn - 6 25565", "10.10.10.10"),
            ("[2001:db8::1]:80 -> 10.0.0.1:90 protocol 6", "2001:db8::1"),
            ("2001:db8::1 udp", "2001:db8::1"),
        ] {
            let row = event(Subject::Key(key.into()));
            let text = trigger(Some("dst host {host}")).expression(&row).unwrap();
            assert_eq!(text, format!("dst host {host}"));
        }
        let text = expression(None, &pair).unwrap();
        assert_eq!(text, "(src host 10.0.0.9 and dst host 2001:db8::1 and tcp) and (tcp port 80)");
        for filter in [None, Some("host {host} or host {peer}")] {
            let text = expression(filter, &pair).unwrap();
            weir_filter::check(&text, &Options::default()).unwrap();
        }
    }

    #[test]
    fn events_that_begin_open_files_up_to_the_limit() {
        let own = trigger(None);
        let others = TriggerSpec { decided: Decided::Elsewhere("port_scan".to_owned()), ..own.clone() };
        let mut triggers = Triggers::new(&[own, others]);
        let begun = event(Subject::Sensor);
        triggers.event(&Event { state: EventState::End, ..begun.clone() });
        assert!(triggers.take().0.is_empty());
        for _ in 0..102 {
            triggers.event(&begun);
        }
        let (opened, refused) = triggers.take();
        assert_eq!((opened.len(), refused), (100, 2));
        assert!(opened.iter().all(|one| one.trigger.subscription().is_none()));
    }
}
