//! The rules of other projects, where they are there: each is in force, or refused by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_detect::{
    Detector, DetectorStats, FileAgain, FlowState, KnownRules, Moment, Program, ProgramOptions, Reading,
    RuleFile, Ruleset, Seen, Sources, Test, Variables,
};
use weir_wire::build::{self, flags};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Hints, Layers, LinkType, Time, decode};

fn shared() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    path.is_dir().then_some(path)
}

/// Files beside the rules.
struct Beside(PathBuf);

impl Sources for Beside {
    fn read(&self, _rules: &str, name: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(name)).map_err(|error| error.to_string())
    }
}

fn rule_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "rules"));
    files.sort();
    let name = |path: &Path| path.file_name().expect("it has a name").to_string_lossy().into_owned();
    files.into_iter().map(|path| (name(&path), std::fs::read(&path).expect("it can be read"))).collect()
}

fn set_of(files: &[(String, Vec<u8>)], folder: &Path) -> Ruleset {
    let reading = Reading {
        variables: Variables::default(),
        sources: &Beside(folder.to_owned()),
        with_switched_off: false,
    };
    Ruleset::read(files.iter().map(|(name, bytes)| RuleFile { name, bytes }), &reading)
}

fn refusals(set: &Ruleset) -> String {
    let line = |refusal: &weir_detect::Refusal| {
        let origin = &refusal.origin;
        format!(
            "{}:{}:{} sid {:?}: {}\n",
            origin.file, origin.line, origin.column, refusal.sid, refusal.fault
        )
    };
    set.refusals.iter().map(line).collect()
}

#[test]
fn rules_of_emerging_threats() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let folder = shared.join("et-open");
    let set = set_of(&rule_files(&folder), &folder);
    print!("{}", refusals(&set));
    println!("passed {} of {} rules in force; {} notes", set.rules.len(), set.offered(), set.notes.len());
    assert_eq!(set.offered(), 6_807);
    assert_eq!(set.rules.len(), 6_807);
}

#[test]
fn rules_of_suricata_verify() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let tests = shared.join("suricata-verify/tests");
    let (mut in_force, mut offered) = (0, 0);
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let set = set_of(&rule_files(&folder), &folder);
        print!("{}", refusals(&set));
        in_force += set.rules.len();
        offered += set.offered();
    }
    println!("passed {in_force} of {offered} rules in force");
    assert!(in_force >= 779, "{in_force} of {offered}");
}

#[test]
fn rules_that_are_read_again_equal_those_that_are_read_anew() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let folder = shared.join("et-open");
    let mut files = rule_files(&folder);
    let reading = Reading {
        variables: Variables::default(),
        sources: &Beside(folder.clone()),
        with_switched_off: false,
    };
    fn named(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = RuleFile<'_>> {
        files.iter().map(|(name, bytes)| RuleFile { name, bytes })
    }
    let mut known = KnownRules::default();
    let first = Ruleset::read_again(named(&files).map(FileAgain::Read), &reading, &mut known);
    // One rule goes, one comes, and one is wrong now.
    let (_, bytes) = &mut files[3];
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (gone, rest) = text.split_once("\nalert ").expect("it has rules");
    let (wrong, rest) = rest.split_once("sid:").expect("a rule has a number");
    let new = "alert tcp any any -> any any (msg:\"new\"; content:\"x\"; sid:4000000001;)";
    *bytes = format!("{}\nalert {wrong}sit:{rest}\n{new}\n", gone.replace("alert", "# alert")).into_bytes();
    // All other files are not looked at.
    let changed = files[3].0.clone();
    let now = named(&files).map(|file| match file.name == changed {
        true => FileAgain::Read(file),
        false => FileAgain::Unchanged(file.name),
    });
    let again = Ruleset::read_again(now, &reading, &mut known);
    let anew = Ruleset::read(named(&files), &reading);
    assert_eq!(refusals(&again), refusals(&anew));
    assert_eq!(again.refusals.len(), first.refusals.len() + 1);
    let notes = |set: &Ruleset| (set.notes.clone(), set.notes_of_unset_bits(), set.keyword_uses());
    assert_eq!(notes(&again), notes(&anew));
    let rules = |set: &Ruleset| -> Vec<_> {
        set.rules.iter().map(|one| (one.origin.clone(), one.rule.clone())).collect()
    };
    assert_eq!(rules(&again), rules(&anew));
    let kept =
        again.rules.iter().filter(|one| first.rules.iter().any(|old| Arc::ptr_eq(&old.rule, &one.rule)));
    assert!(kept.count() + 2 >= first.rules.len(), "unchanged rules are not read again");
}

/// What flows of all protocols that rules name match, one flow for each 40 rules: their contents, as payload of packets, as stream, and as
/// values of the buffers that they name, in as many transactions as there are rounds. The sids are in order.
fn matched(program: &Arc<Program>, offered: &Ruleset, rounds: u64) -> (Vec<u32>, DetectorStats) {
    let mut detector = Detector::new(Arc::clone(program));
    let mut sids = Vec::new();
    let numbers: Vec<u8> = (1..=weir_proto::PROTOCOLS.len() as u8).collect();
    for (number, rules) in (0_u16..).zip(offered.rules.chunks(40)) {
        let mut state = FlowState::default();
        let (client, server) = ([10, 0, 0, 1], [192, 0, 2, 1]);
        let sides = [Direction::Forward, Direction::Reverse];
        for (round, direction) in (0..rounds).flat_map(|round| sides.map(|side| (round, side))) {
            Detector::transaction(&mut state, direction, round);
            let moment = Moment {
                time: Time(u64::from(number) * 1_000_000_000),
                direction,
                initiator: (client.into(), 40_000 + number),
                responder: (server.into(), 80),
                ip_proto: 6,
                protocols: [numbers[usize::from(number) % numbers.len()], 0, 0, 0],
                is_unidentified: false,
                first: Time(0),
                packet: None,
            };
            let tests = rules.iter().flat_map(|loaded| &loaded.rule.buffers);
            for of in tests {
                let contents = of.tests.iter().filter_map(|test| match test {
                    Test::Content(content) if !content.is_negated => Some(&*content.bytes),
                    _ => None,
                });
                let value = contents.collect::<Vec<_>>().concat();
                let named = weir_proto::buffers().find(|buffer| buffer.name == of.buffer.name);
                match named {
                    Some(buffer) => detector.buffer(&mut state, &moment, buffer, &value),
                    None => {
                        let frame =
                            build::ethernet().ipv4(client, server).tcp(40_000 + number, 80, flags::ACK);
                        let frame = frame.payload(&value[..value.len().min(1_400)]);
                        let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
                        let seen = Seen { data: &frame, layers: &layers, hints: Hints(0) };
                        Detector::sees(&mut state, direction, &seen);
                        detector.packet(&mut state, &Moment { packet: Some(seen), ..moment });
                        let chunk = Chunk { time: Time(0), direction, gap: 0, data: &value };
                        detector.chunk(&mut state, &moment, &chunk);
                    }
                }
            }
            detector.complete(&mut state, &moment);
            detector.end(&mut state, &moment);
        }
        let found: Vec<u32> = detector.take().map(|found| found.rule).collect();
        sids.extend(found.iter().map(|rule| detector.program().rules[*rule as usize].rule().sid));
    }
    sids.sort_unstable();
    (sids, detector.stats())
}

#[test]
fn rules_of_emerging_threats_in_another_order_match_as_often() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let folder = shared.join("et-open");
    let set = set_of(&rule_files(&folder), &folder);
    let of = |program: Program| matched(&Arc::new(program), &set, 1).0;
    let one = of(Program::new(&set, &[]));
    println!("{} matches", one.len());
    assert!(one.len() > 500, "{}", one.len());
    for turn in [1, 1_234, 5_000] {
        let mut turned = set_of(&rule_files(&folder), &folder);
        turned.rules.rotate_left(turn);
        turned.rules.reverse();
        assert!(one == of(Program::new(&turned, &[])), "turned by {turn}");
    }
    let plain = ProgramOptions { searches: false, ..ProgramOptions::default() };
    assert!(one == of(Program::with(&set, &[], plain)), "without a search");
}

#[test]
fn work_for_rules_of_emerging_threats_rises_no_faster_than_size() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let folder = shared.join("et-open");
    let set = set_of(&rule_files(&folder), &folder);
    let program = Arc::new(Program::new(&set, &[]));
    let [one, two, four] = [1, 2, 4].map(|rounds| {
        let DetectorStats { verified, steps, searched, .. } = matched(&program, &set, rounds).1;
        [verified, steps, searched]
    });
    println!("{one:?} {two:?} {four:?}");
    for (less, more) in [(one, two), (two, four)] {
        for (less, more) in less.into_iter().zip(more) {
            // The windows of streams have more bytes before them in later rounds.
            assert!(less > 0 && more <= 2 * less + less / 2, "{less} {more}");
        }
    }
}
