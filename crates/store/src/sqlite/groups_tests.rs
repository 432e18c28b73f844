//! Tests of groups within little memory, against sums of everything.

use super::*;
use crate::loan::tests::Purse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use weir_api::Count;

const MEASURES: [Measure; 4] = [Measure::Bytes, Measure::Packets, Measure::Flows, Measure::Rows];

/// A row: its value, its flow, and what it has.
type Line = (u64, i64, Sums);

fn bounds(measure: Measure, groups: usize, rows: usize) -> Bounds {
    Bounds { measure, is_first_come: false, groups, rows, steps: 0 }
}

fn sums(bytes: u64) -> Sums {
    let count = Count { packets: bytes.div_ceil(100), bytes };
    Sums { rows: 1, flows: 1, count, ..Sums::default() }
}

/// Numbers of a small linear generator.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// 5000 light values and one heavy one, in pieces.
fn orders() -> Vec<(&'static str, Vec<Line>)> {
    let heavy = 1 << 40;
    let light: Vec<Line> = (0..5000).map(|n| (n, n as i64, sums(100 + n))).collect();
    let pieces: Vec<Line> = (0..400).map(|n| (heavy, 1_000_000 + n, sums(60_000))).collect();
    let join = |parts: &[&[Line]]| parts.concat();
    let down: Vec<Line> = light.iter().rev().copied().collect();
    // A piece is after some light ones, the first of them after half of all.
    let mut among = light.clone();
    for (at, piece) in pieces.iter().enumerate() {
        among.insert(2600 + at * 7, *piece);
    }
    let mut mixed = join(&[&light, &pieces]);
    let mut seed = 7;
    for at in (1..mixed.len()).rev() {
        mixed.swap(at, random(&mut seed) as usize % (at + 1));
    }
    let mut skewed: Vec<Line> = Vec::new();
    for at in 0..20_000 {
        // Few values have most of the rows.
        let value = random(&mut seed) % (1 + random(&mut seed) % 3000);
        skewed.push((value, at, sums(60 + random(&mut seed) % 1400)));
    }
    vec![
        ("ascending", join(&[&light, &pieces])),
        ("descending", join(&[&down, &pieces])),
        ("heavy first", join(&[&pieces, &light])),
        ("interleaved", among),
        ("mixed", mixed),
        ("skewed", skewed),
    ]
}

/// Counts lines, and checks every sum and bound against the sums of all of them. Returns the rows and the
/// bound.
fn check(
    text: &str,
    lines: &[Line],
    by_flow: bool,
    of: Bounds,
    memory: &mut Loan,
) -> (Vec<Group>, Option<f64>) {
    let mut groups = Groups::new(of);
    let mut truth: BTreeMap<u64, Sums> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut listed = 0;
    for (value, flow, sums) in lines {
        let key = value.to_be_bytes();
        let counted = groups.add(&key, by_flow.then_some(*flow), sums, 0, memory);
        listed += counted.map_or(0, |(_, counted)| counted.rows);
        let is_new = !by_flow || seen.insert((*value, *flow));
        let sums = if is_new { *sums } else { Sums { rows: 1, ..Sums::default() } };
        truth.entry(*value).or_default().add(&sums);
        assert!(groups.len() <= of.groups);
    }
    let number = |group: &Group| u64::from_be_bytes(group.key.as_ref().try_into().unwrap());
    let (held, left_out) = (groups.len(), groups.left_out());
    let (rows, lost) = groups.heaviest();
    assert_eq!(rows.len(), held.min(of.rows), "{text}");
    if held == rows.len() {
        assert_eq!(
            rows.iter().map(|row| row.sums.rows).sum::<u64>() + left_out,
            lines.len() as u64,
            "{text}"
        );
        assert!(listed + left_out >= lines.len() as u64);
    }
    for row in &rows {
        let (value, truth) = (row.sums.of(of.measure), truth[&number(row)].of(of.measure));
        assert!(value <= truth && truth <= value + row.missing, "{text}: {value} {truth} {}", row.missing);
    }
    let shown: HashSet<u64> = rows.iter().map(number).collect();
    let least = rows.last().map_or(0.0, |row| row.sums.of(of.measure));
    for (value, sums) in truth.iter().filter(|(value, _)| !shown.contains(value)) {
        assert!(sums.of(of.measure) <= lost.unwrap_or(least), "{text}: {value} with {sums:?}, {lost:?}");
    }
    (rows, lost)
}

#[test]
fn the_heaviest_value_is_first_in_any_order_and_all_bounds_hold() {
    for measure in MEASURES {
        for (order, lines) in orders() {
            for by_flow in [false, true] {
                for (most, rows) in [(64, 5), (64, 1000), (500, 10), (7, 3)] {
                    let text = format!("{order} by {measure:?}, {most} groups, {by_flow}");
                    let of = bounds(measure, most, rows);
                    let (found, lost) = check(&text, &lines, by_flow, of, &mut Loan::default());
                    let all: f64 = lines.iter().map(|(.., sums)| sums.of(measure)).sum();
                    let worst = all / (most / 2) as f64;
                    assert!(lost.is_some() && found.iter().all(|row| row.missing <= worst), "{text}");
                    if order != "skewed" && most >= 64 {
                        assert_eq!(found[0].key.as_ref(), (1_u64 << 40).to_be_bytes(), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_hold_with_little_memory_and_it_is_given_back() {
    for measure in MEASURES {
        for (order, lines) in orders() {
            for (by_flow, pieces) in [(false, 1), (false, 0), (true, 1), (true, 2), (true, 3), (false, 3)] {
                let text = format!("{order} by {measure:?}, {pieces} pieces, {by_flow}");
                let purse = Arc::new(Purse(Mutex::new(pieces << 16)));
                let mut memory = Loan::of(Some(purse.clone()));
                let of = bounds(measure, 500_000, 10);
                let (found, lost) = check(&text, &lines, by_flow, of, &mut memory);
                assert!(memory.is_refused() && lost.is_some(), "{text}");
                if order != "skewed" && pieces > 0 && measure == Measure::Bytes {
                    assert_eq!(found[0].key.as_ref(), (1_u64 << 40).to_be_bytes(), "{text}");
                }
                drop(memory);
                assert_eq!(*purse.0.lock().unwrap(), pieces << 16);
            }
        }
    }
}

#[test]
fn with_room_for_all_every_sum_is_exact() {
    for (order, lines) in orders() {
        for by_flow in [false, true] {
            let of = bounds(Measure::Bytes, 6000, 6000);
            let (rows, lost) = check(order, &lines, by_flow, of, &mut Loan::default());
            assert!(lost.is_none() && rows.iter().all(|row| row.missing == 0.0));
        }
    }
}

/// A flow with records of a value that goes and comes back counts once in what is shown.
#[test]
fn flows_of_a_value_that_comes_back_count_within_the_bound() {
    let mut lines: Vec<Line> = Vec::new();
    for at in 0..30_000_i64 {
        let value = if at % 5 == 0 { 1 } else { 10 + at as u64 % 900 };
        lines.push((value, at % 70, sums(500)));
    }
    for pieces in 1..6 {
        let mut memory = Loan::of(Some(Arc::new(Purse(Mutex::new(pieces << 16)))));
        check("flows", &lines, true, bounds(Measure::Flows, 500_000, 10), &mut memory);
        check("flows", &lines, true, bounds(Measure::Bytes, 100, 10), &mut memory);
    }
}

#[test]
fn the_first_come_stay_where_weights_say_nothing() {
    let of = Bounds { is_first_come: true, ..bounds(Measure::Bytes, 10, 3) };
    let mut groups = Groups::new(of);
    for n in 0..30_u64 {
        groups.add(&n.to_be_bytes(), None, &sums(100 * n), 0, &mut Loan::default());
    }
    assert_eq!((groups.len(), groups.left_out()), (10, 20));
    let (rows, lost) = groups.heaviest();
    assert_eq!(rows[0].key.as_ref(), 9_u64.to_be_bytes());
    assert!(lost == Some(f64::INFINITY) && rows.iter().all(|row| row.missing == 0.0));
}

/// Parts of the time of a removed group give their memory back.
#[test]
fn parts_of_removed_groups_make_room() {
    let purse = Arc::new(Purse(Mutex::new(1 << 16)));
    let mut memory = Loan::of(Some(purse));
    let mut groups = Groups::new(Bounds { steps: 10, ..bounds(Measure::Bytes, 500_000, 4) });
    let mut refused = 0;
    for n in 0..3000_u64 {
        let key = (n % 1000).to_be_bytes();
        let (number, counted) = groups.add(&key, None, &sums(n), 4 * STEP, &mut memory).unwrap();
        for place in 0..4 {
            let value = counted.count.bytes as f64 / 4.0;
            refused += u64::from(!groups.add_part(number, place, value, &mut memory));
        }
    }
    assert!(groups.len() >= 4 && memory.is_refused());
    let (rows, _) = groups.heaviest();
    assert_eq!((rows.len(), refused), (4, 0));
    for row in rows {
        assert_eq!(row.over.iter().map(|(_, value)| value).sum::<f64>(), row.sums.count.bytes as f64);
    }
}
