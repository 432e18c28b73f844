use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use weir_api::event::{FINDING, SYN_FLOOD};
use weir_api::{
    Answer, AnswerId, AnswerLabel, Class, Event, Interval, Key, KeyKind, Reading, Subject, Top, TopRow, Unit,
    builtin,
};

/// An answer of a built-in subscription.
fn answer(name: &str, function: &str, reading: Reading) -> Answer {
    let label =
        AnswerLabel { subscription: name.into(), function: function.into(), ..AnswerLabel::default() };
    let id = AnswerId { subscription: builtin::number_of(name).unwrap(), place: 0 };
    Answer { id, label: Arc::new(label), reading, nanoseconds: 0 }
}

const SECOND: u64 = 1_000_000_000;

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 99, 0, last))
}

/// A snapshot of `hosts` hosts that communicate with a web server; host 1 has the most traffic.
fn snapshot(hosts: u8, seconds: u64) -> Snapshot {
    let weight = |host: u8| Count {
        packets: seconds * 100 / u64::from(host),
        bytes: seconds * 100_000 / u64::from(host),
    };
    let top = |key: KeyKind, make: &dyn Fn(u8) -> Key| {
        let rows = (1..=hosts)
            .map(|h| TopRow { key: make(h), count: weight(h), flows: seconds, error: 0 })
            .collect();
        Reading::Top(Top {
            key,
            show: 10,
            unit: Unit::Bytes,
            capacity: 64,
            rows,
            absent: 0,
            inserts: 9,
            shed: Count::default(),
        })
    };
    let class =
        |label: &str, packets| Class { label: label.into(), count: Count { packets, bytes: packets * 100 } };
    let classes = |labels: [&str; 3]| Reading::Classes {
        unit: Unit::Bytes,
        classes: vec![class(labels[0], seconds * 90), class(labels[1], seconds * 10), class(labels[2], 0)],
    };
    let sum: u64 = (1..=hosts).map(|h| weight(h).packets).sum();
    let mut snapshot =
        Snapshot { interval: Interval { start: 0, end: SECOND * seconds }, ..Snapshot::default() };
    snapshot.ledger.capture.offered = sum + 7 * seconds;
    snapshot.ledger.capture.dropped = 7 * seconds;
    snapshot.ledger.caught = sum;
    snapshot.ledger.bytes = (1..=hosts).map(|h| weight(h).bytes).sum();
    snapshot.ledger.analysed = sum;
    snapshot.ledger.flowed = sum;
    snapshot.ledger.errors.0[1][0] = seconds * 3;
    snapshot.flows.created = u64::from(hosts);
    snapshot.answers = vec![
        answer(
            "talkers",
            "top",
            top(KeyKind::Talker, &|h| Key::Talker {
                server: address(250),
                port: 443,
                client: address(h),
                protocol: 6,
            }),
        ),
        answer(
            "services",
            "top",
            top(KeyKind::Service, &|h| Key::Port { protocol: 6, port: 79 + u16::from(h) }),
        ),
        answer("sources", "top", top(KeyKind::Source, &|h| Key::Address(address(h)))),
        answer("destinations", "top", top(KeyKind::Destination, &|h| Key::Address(address(h)))),
        answer(
            "flows",
            "top",
            top(KeyKind::Flow, &|h| Key::Flow {
                source: address(h),
                source_port: 4000,
                destination: address(250),
                destination_port: 443,
                protocol: 6,
            }),
        ),
        answer("protocols", "top", top(KeyKind::Protocol, &Key::Protocol)),
        answer("cast", "cast", classes(["mcast", "ucast", "bcast"])),
        answer("size", "size", classes(["tiny", "small", "med"])),
        answer("ipproto", "ipproto", classes(["tcp", "udp", "icmp"])),
    ];
    snapshot
}

/// The data that a view borrows.
struct Scene {
    interfaces: Vec<String>,
    last: Snapshot,
    total: Snapshot,
    history: History,
}

impl Scene {
    fn new(hosts: u8) -> Self {
        let mut history = History::default();
        for second in 0..40 {
            let mut snapshot = Snapshot::default();
            snapshot.ledger.caught = second * 10;
            snapshot.ledger.bytes = second * 12_345;
            history.push(&snapshot);
        }
        let total = snapshot(hosts, 90);
        history.ledger = total.ledger;
        Self { interfaces: vec!["eth0".into()], last: snapshot(hosts, 1), total, history }
    }

    fn lossless(mut self) -> Self {
        for ledger in [&mut self.last.ledger, &mut self.total.ledger, &mut self.history.ledger] {
            ledger.capture.dropped = 0;
            ledger.capture.offered = ledger.caught;
        }
        self
    }

    fn view(&self) -> LiveView<'_> {
        LiveView {
            interfaces: &self.interfaces,
            expression: "",
            started: 0,
            now: 90 * SECOND,
            last: &self.last,
            total: &self.total,
            history: &self.history,
            ring_fill: Some(0.031),
            writing: None,
            names: true,
            notice: None,
        }
    }
}

fn drawn(
    view: &LiveView<'_>,
    frozen: Option<&LiveView<'_>>,
    state: &ScreenState,
    width: u16,
    height: u16,
) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| render(frame, view, frozen, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn pane(number: u8) -> ScreenState {
    ScreenState { pane: number, ..ScreenState::new(false) }
}

fn press(state: &mut ScreenState, code: KeyCode) -> Option<Action> {
    state.key(KeyEvent::new(code, KeyModifiers::NONE), "tcp")
}

#[test]
fn the_overview_is_drawn() {
    let scene = Scene::new(4).lossless();
    let rows = drawn(&scene.view(), None, &pane(1), 80, 22);
    println!("{}", rows.join("\n"));
    assert_eq!(rows, OVERVIEW.lines().map(str::to_owned).collect::<Vec<_>>(),);
}

const OVERVIEW: &str = "\
3.85 Mb/s  390 pkt/s   eth0   00:01:30   4 new flows/s
[1 over] 2 talk  3 serv  4 host  5 find  6 flow  7 proto  8 err  9 ledger
BITS/S  now 3.85 Mb/s, peak 3.85 Mb/s in 40 s
                                                              ▁▁▁▂▂▃▃▃▄▄▅▅▅▆▆▇▇█
                                           ▁▁▂▂▂▃▃▄▄▄▅▅▆▆▆▇▇████████████████████
PACKETS/S  now 390 pkt/s, peak 390 pkt/s in 40 s
                                                              ▁▁▁▂▂▃▃▃▄▄▅▅▅▆▆▇▇█
                                           ▁▁▂▂▂▃▃▄▄▄▅▅▆▆▆▇▇████████████████████
TALKERS  by bits/s now, 4 keys
                                      bits/s  pkt/s   bytes  packets  flows
10.99.0.250:443 < 10.99.0.1 https?  800 kb/s    100  9.0 MB    9,000     90
10.99.0.250:443 < 10.99.0.2 https?  400 kb/s     50  4.5 MB    4,500     90
10.99.0.250:443 < 10.99.0.3 https?  267 kb/s     33  3.0 MB    3,000     90
10.99.0.250:443 < 10.99.0.4 https?  200 kb/s     25  2.2 MB    2,250     90

SERVICES  by bits/s now, 4 keys
                bits/s  pkt/s   bytes  packets  flows
tcp/80 http?  800 kb/s    100  9.0 MB    9,000     90  █████████████████████████
tcp/81        400 kb/s     50  4.5 MB    4,500     90  ████████████▌
tcp/82        267 kb/s     33  3.0 MB    3,000     90  ████████▍
/ filter  Enter details  p pause  w write  o order  ? help  q quit
LOSS none   ring 3% full   offered 18,750  caught 18,750  analysed 18,750";

#[test]
fn every_pane_can_be_drawn_at_every_size() {
    let mut pictures = 0;
    for scene in [Scene::new(0), Scene::new(3), Scene::new(200)] {
        let long = "host 10.99.0.1 and not port 22 ".repeat(10);
        let view = LiveView {
            expression: &long,
            writing: Some("out.pcapng"),
            notice: Some("eth0 is down"),
            ..scene.view()
        };
        for width in [0, 1, 2, 7, 20, 39, 40, 79, 80, 100, 101, 160, 200] {
            for height in [0, 1, 2, 3, 4, 5, 6, 8, 10, 16, 24, 40, 60] {
                for number in 1..=9 {
                    for order in [state::Order::BytesNow, state::Order::Packets] {
                        let state = ScreenState { order, ..pane(number) };
                        assert_eq!(drawn(&view, None, &state, width, height).len(), usize::from(height));
                        pictures += 1;
                    }
                }
                for state in [
                    ScreenState { help: true, paused: true, ..ScreenState::new(true) },
                    ScreenState { editor: Some(editor::Editor::new(&long)), ..ScreenState::new(true) },
                ] {
                    drawn(&view, Some(&view), &state, width, height);
                    pictures += 1;
                }
            }
        }
    }
    println!("{pictures} pictures");
}

/// An empty snapshot of a run without subscriptions can be drawn.
#[test]
fn an_empty_snapshot_can_be_drawn() {
    let (interfaces, snapshot, history) = (Vec::new(), Snapshot::default(), History::default());
    let scene = Scene { interfaces, last: snapshot.clone(), total: snapshot, history };
    for number in 1..=9 {
        let rows = drawn(&scene.view(), None, &pane(number), 80, 24);
        assert!(rows[23].starts_with("LOSS none"), "{}", rows[23]);
    }
}

#[test]
fn the_loss_line_is_shown_at_any_size_and_never_paused() {
    let (lost, fine) = (Scene::new(3), Scene::new(3).lossless());
    let frozen = fine.view();
    for (width, height) in [(20, 1), (20, 5), (40, 10), (80, 24), (200, 60)] {
        for number in 1..=9 {
            let state = ScreenState { paused: true, ..pane(number) };
            let rows = drawn(&lost.view(), Some(&frozen), &state, width, height);
            let line = rows.last().unwrap();
            assert!(line.starts_with("LOSS 630 (3.68%)"), "{width}x{height} {line}");
            let rows = drawn(&fine.view(), None, &pane(number), width, height);
            assert!(rows.last().unwrap().starts_with("LOSS none"), "{width}x{height}");
        }
    }
    let line = |scene: &Scene, width| drawn(&scene.view(), None, &pane(1), width, 10).pop().unwrap();
    assert_eq!(
        line(&lost, 120),
        "LOSS 630 (3.68%)   7 in the last second   kernel 630   ring 3% full   offered 17,130  caught 16,500  analysed 16,500"
    );
    assert_eq!(line(&fine, 80), "LOSS none   ring 3% full   offered 16,500  caught 16,500  analysed 16,500");
    assert_eq!(line(&fine, 40), "LOSS none   ring 3% full");
}

#[test]
fn an_imbalance_and_shed_rows_are_at_the_start_of_the_loss_line() {
    let mut scene = Scene::new(3).lossless();
    scene.history.ledger.rows_shed = 12;
    scene.history.ledger.filtered = 1;
    let rows = drawn(&scene.view(), None, &pane(9), 160, 30);
    let line = rows.last().unwrap();
    assert!(line.starts_with("LOSS none   IMBALANCE: caught 16500 is not"), "{line}");
    assert!(line.contains("12 log rows shed"), "{line}");
    assert!(rows.iter().any(|row| row.contains("IMBALANCE: ")));
}

#[test]
fn packets_that_are_neither_caught_nor_dropped_are_an_imbalance() {
    let mut scene = Scene::new(3).lossless();
    let rows = drawn(&scene.view(), None, &pane(9), 160, 30);
    assert!(rows.last().unwrap().starts_with("LOSS none   ring 3% full"), "{}", rows[29]);
    scene.history.ledger.capture.offered += 1;
    let rows = drawn(&scene.view(), None, &pane(9), 160, 30);
    assert!(rows.last().unwrap().contains("IMBALANCE: offered"), "{}", rows[29]);
}

/// The loss line covers the whole run, regardless of changes of the expression.
#[test]
fn a_new_expression_does_not_reset_the_losses() {
    let mut scene = Scene::new(3);
    scene.total = Snapshot::default();
    let rows = drawn(&scene.view(), None, &pane(1), 80, 24);
    assert!(rows[23].starts_with("LOSS 630 "), "{}", rows[23]);
}

#[test]
fn keys_open_panes_and_change_the_order() {
    let mut state = ScreenState::new(false);
    for digit in '1'..='9' {
        assert_eq!(press(&mut state, KeyCode::Char(digit)), Some(Action::Redraw));
        assert_eq!(state.pane, digit as u8 - b'0');
    }
    press(&mut state, KeyCode::Right);
    assert_eq!(state.pane, 1);
    press(&mut state, KeyCode::Left);
    assert_eq!(state.pane, 9);
    let first = state.order;
    for _ in 0..4 {
        press(&mut state, KeyCode::Char('o'));
    }
    assert_eq!(state.order, first);
    press(&mut state, KeyCode::Char('p'));
    press(&mut state, KeyCode::Char('?'));
    assert!(state.paused && state.help);
    press(&mut state, KeyCode::Char('2'));
    assert!(!state.help);
    assert_eq!(press(&mut state, KeyCode::Char('x')), None);
    assert_eq!(press(&mut state, KeyCode::Char('w')), Some(Action::Write));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Action::Quit));
}

#[test]
fn a_filter_is_edited_checked_and_applied() {
    let scene = Scene::new(3);
    let mut state = ScreenState::new(false);
    press(&mut state, KeyCode::Char('/'));
    for c in " prot q".chars() {
        assert_eq!(press(&mut state, KeyCode::Char(c)), Some(Action::Redraw));
    }
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Action::Redraw));
    let rows = drawn(&scene.view(), None, &state, 80, 24);
    assert_eq!(rows[21], "/tcp prot q");
    assert!(rows[22].starts_with("     ^ "), "{}", rows[22]);
    assert!(rows[23].starts_with("LOSS"));
    state.key(KeyEvent::new(KeyCode::Char('e'), KeyModifiers::CONTROL), "");
    for _ in 0..7 {
        press(&mut state, KeyCode::Backspace);
    }
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Action::Filter("tcp".into())));
    assert!(state.editor.is_none());
    press(&mut state, KeyCode::Char('/'));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(interrupt, ""), Some(Action::Quit));
}

#[test]
fn lists_are_in_the_selected_order() {
    let mut scene = Scene::new(3).lossless();
    // In the last second the talker with the fewest total bytes was the busiest.
    if let Reading::Top(top) = &mut scene.last.answers[2].reading {
        top.rows.edit()[2].count = Count { packets: 1, bytes: 5_000_000 };
        top.rows.edit()[0].count.packets = 900;
    }
    let firsts = [
        (state::Order::BytesNow, "10.99.0.3"),
        (state::Order::PacketsNow, "10.99.0.1"),
        (state::Order::Bytes, "10.99.0.1"),
    ];
    for (order, first) in firsts {
        let rows = drawn(&scene.view(), None, &ScreenState { order, ..pane(4) }, 100, 20);
        assert!(rows[4].starts_with(first), "{order:?}\n{}", rows.join("\n"));
        assert!(rows[2].starts_with(&format!("HOSTS  {}", order.name())), "{}", rows[2]);
    }
}

#[test]
fn hosts_have_both_directions_and_findings_are_listed() {
    let mut scene = Scene::new(3).lossless();
    if let Reading::Top(top) = &mut scene.total.answers[3].reading {
        top.rows.edit().remove(0);
    }
    let rows = drawn(&scene.view(), None, &pane(4), 100, 20);
    assert!(rows[3].contains("sends") && rows[3].contains("received"), "{}", rows[3]);
    let first = rows.iter().find(|row| row.starts_with("10.99.0.1 ")).unwrap();
    assert!(first.contains("9.0 MB") && first.contains(" 0 B"), "{first}");

    let rows = drawn(&scene.view(), None, &pane(5), 100, 20);
    assert!(rows[2].starts_with("FINDINGS  no host tries"), "{}", rows[2]);
    let mut row = weir_api::Trials::new(weir_api::Sweep::Ports { source: address(9), target: address(1) });
    (1..=40).for_each(|port| {
        row.failed.add(port);
    });
    (row.refused, row.first, row.last) = (40, SECOND, 3 * SECOND);
    scene.total.add_events(&[row.event()]);
    let rows = drawn(&scene.view(), None, &pane(5), 100, 20);
    assert!(rows[2].starts_with("FINDINGS  1 scan"), "{}", rows[2]);
    assert!(
        rows[4].starts_with("10.99.0.9 -> 10.99.0.1  40 ports") && rows[4].contains("2.000 s"),
        "{}",
        rows[4]
    );
    let target = Subject::Target { target: address(1), protocol: 6, port: Some(25_565), of_sender: false };
    let flood = Event { count: 2_500, ..Event::at(&SYN_FLOOD, target, SECOND) };
    scene.total.add_events(&[flood, Event::at(&FINDING, Subject::Host(address(9)), SECOND)]);
    let rows = drawn(&scene.view(), None, &pane(5), 100, 20);
    assert!(rows[2].starts_with("FINDINGS  1 scan, 1 flood, 1 finding"), "{}", rows[2]);
    assert!(rows[3].starts_with("syn flood -> 10.99.0.1 tcp/25565  2,500"), "{}", rows[3]);
    assert!(rows[4].starts_with("finding  10.99.0.9  1 time"), "{}", rows[4]);
    assert!(rows[7].starts_with("10.99.0.9 -> 10.99.0.1  40 ports"), "{rows:?}");
    // The least height has the first flood and the first scan.
    let rows = drawn(&scene.view(), None, &pane(5), 60, 10);
    assert!(rows.iter().any(|row| row.contains("40 ports")) && rows[3].starts_with("syn flood"), "{rows:?}");
}

#[test]
fn enter_opens_the_details_of_a_row() {
    let scene = Scene::new(3).lossless();
    let mut state = pane(2);
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Down);
    assert_eq!(state.selected, Some(1));
    press(&mut state, KeyCode::Enter);
    assert!(state.opens);
    state.detail = panes::selected(&scene.view(), &state);
    let rows = drawn(&scene.view(), None, &state, 100, 20);
    assert!(rows[2].starts_with("DETAILS"), "{}", rows[2]);
    assert_eq!(rows[3], "10.99.0.250:443 < 10.99.0.2 https?");
    assert!(rows[4].contains("host 10.99.0.250 and host 10.99.0.2 and tcp port 443"), "{}", rows[4]);
    assert!(rows[5].contains("no protocol identified; the port is registered for https"), "{}", rows[5]);
    press(&mut state, KeyCode::Char('/'));
    press(&mut state, KeyCode::Backspace);
    state.key(KeyEvent::new(KeyCode::Char('h'), KeyModifiers::CONTROL), "");
    let applied = press(&mut state, KeyCode::Enter);
    let expression = "host 10.99.0.250 and host 10.99.0.2 and tcp port 4";
    assert_eq!(applied, Some(Action::Filter(expression.into())));
    press(&mut state, KeyCode::Backspace);
    assert_eq!(state.detail, None);
    for number in 1..=9 {
        let state = ScreenState { selected: Some(999), ..pane(number) };
        let key = panes::selected(&scene.view(), &state);
        let state = ScreenState { detail: key, ..state };
        for (width, height) in [(0, 0), (1, 1), (20, 5), (80, 24)] {
            drawn(&scene.view(), None, &state, width, height);
        }
    }
}

#[test]
fn an_inexact_figure_is_marked() {
    let mut scene = Scene::new(3);
    if let Reading::Top(top) = &mut scene.total.answers[4].reading {
        top.rows.edit()[0].error = 10;
        (top.shed, top.absent) = (Count { packets: 5, bytes: 5000 }, 900);
    }
    let rows = drawn(&scene.view(), None, &pane(6), 100, 20);
    assert!(rows[2].ends_with("3 keys, 9 inserts, 5.0 kB without a row, each at most 900 B"), "{}", rows[2]);
    assert!(rows[4].contains("  9.0 MB ±<1%   ≥9,000"), "{}", rows[4]);
    assert!(!rows[5].contains(['±', '≥']), "{}", rows[5]);
}

#[test]
fn colour_is_never_the_only_cue_and_can_be_disabled() {
    let scene = Scene::new(3);
    for number in 1..=9 {
        let mut plain = Terminal::new(TestBackend::new(100, 30)).unwrap();
        plain.draw(|frame| render(frame, &scene.view(), None, &pane(number))).unwrap();
        assert!(
            plain
                .backend()
                .buffer()
                .content
                .iter()
                .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        );
        let mut colored = Terminal::new(TestBackend::new(100, 30)).unwrap();
        let state = ScreenState { pane: number, ..ScreenState::new(true) };
        colored.draw(|frame| render(frame, &scene.view(), None, &state)).unwrap();
        let symbols = |t: &Terminal<TestBackend>| {
            t.backend().buffer().content.iter().map(|cell| cell.symbol().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(symbols(&plain), symbols(&colored));
        assert_ne!(plain.backend().buffer(), colored.backend().buffer());
    }
}

/// Escape sequences in names from packets do not reach the terminal.
#[test]
fn escape_sequences_in_names_are_not_printed() {
    let mut scene = Scene::new(1);
    scene.interfaces = vec!["e\u{1b}[2Jth".into()];
    let view = LiveView { writing: Some("\u{1b}]0;x\u{7}"), notice: Some("\u{9b}31m"), ..scene.view() };
    for row in drawn(&view, None, &pane(1), 80, 24) {
        assert!(!row.chars().any(char::is_control), "{row:?}");
    }
}
