use super::Digest;
use crate::Target;
use weir_api::{
    Count, DecodeError, Distinct, DistinctCount, DistinctOf, Histogram, Reading, SCANS, Series, Snapshot,
    Sweep, Table, Trials,
};

pub const TARGET: Target = Target {
    name: "reading",
    about: "a reading or a snapshot in binary form: what is decoded is encoded as it is, and can be merged and shown",
    seeds,
    words: &[
        b"WR\x01",
        b"WS\x01",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x3f",
        b"\xff\xff\xff\xff\x0f",
        b"\x80\x20",
    ],
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut histogram = Histogram::new("size", vec![0, 64, 1500]);
    let mut series = Series::new(1_000_000);
    let mut seen = Distinct::default();
    let source = [10, 0, 0, 1].into();
    let mut trials = Trials::new(Sweep::Hosts { source, port: 22 });
    for n in 0..40 {
        histogram.add(n * 50);
        series.add(n * 10_000_000, &Count { packets: 1, bytes: n });
        seen.add(n << 58);
        trials.failed.add(n.into());
    }
    (trials.unanswered, trials.first, trials.last) = (40, 1, 2);
    let readings = [
        Reading::Count(Count { packets: 3, bytes: 300 }),
        Reading::Histogram(histogram),
        Reading::Series(series),
        Reading::Distinct(DistinctCount::new(DistinctOf::Ports, 5, seen)),
        Reading::Table(Table::new(&SCANS, 64, vec![trials.row(0)], 0)),
    ];
    let snapshot = Snapshot::default();
    let mut seeds: Vec<Vec<u8>> = readings.iter().map(Reading::encode).collect();
    seeds.push(snapshot.encode());
    seeds
}

fn run(bytes: &[u8]) -> u64 {
    let mut digest = Digest::default();
    match Reading::decode(bytes) {
        Ok(mut reading) => {
            let form = reading.encode();
            let again = Reading::decode(&form).expect("what was encoded is decoded");
            assert_eq!(again.encode(), form);
            let cells = reading.cells();
            digest.size(cells.rows.len() as u64);
            cells.rows.iter().for_each(|row| assert_eq!(row.values.len(), cells.columns.len()));
            reading.figures(&mut |figure| digest.add(figure.label.len() as u64));
            if reading.is_like(&again) {
                reading.merge(&again);
            }
        }
        Err(DecodeError::Kind) => {}
        Err(error) => error.to_string().bytes().for_each(|byte| digest.add(byte.into())),
    }
    if let Ok(mut snapshot) = Snapshot::decode(bytes) {
        let form = snapshot.encode();
        assert_eq!(Snapshot::decode(&form).map(|again| again.encode()), Ok(form));
        let again = snapshot.clone();
        snapshot.merge(&again);
        digest.size(snapshot.answers.len() as u64);
    }
    digest.0
}
