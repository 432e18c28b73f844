//! A report: one self-contained page, and the same figures as CSV.
//!
//! The page has no script and requests nothing; a policy in its head forbids both. All text from packets and from file
//! names is escaped.

mod chart;

use crate::csv::cell;
use crate::figures;
use crate::model::{Described, Fitted, Gather, Group, Model, QUANTITIES, StreamRow};
use crate::zone::Zone;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

const STYLE: &str = include_str!("page.css");

/// Maximum number of groups whose distributions are drawn; all are in the CSV.
const DRAWN: usize = 12;
/// Maximum number of rows of a table.
const ROWS: usize = 30;

/// The contents of a page, apart from the collected values.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The inputs.
    pub title: String,
    /// Time zone of times.
    pub zone: Zone,
    /// Errors of the inputs.
    pub problems: Vec<String>,
}

/// Escapes text for any position in a page, including attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in figures::printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A number with three significant digits.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !magnitude.is_finite() {
        "–".to_owned()
    } else if magnitude >= 1e6 || (magnitude > 0.0 && magnitude < 1e-3) {
        format!("{value:.2e}")
    } else {
        let decimals = if magnitude >= 100.0 {
            0
        } else if magnitude >= 10.0 {
            1
        } else {
            3
        };
        let text = format!("{value:.decimals$}");
        if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
    }
}

/// The head of a page and the beginning of its header: title, style, and the policy that forbids scripts and requests.
pub fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title} – Weir</title><style>{STYLE}</style></head><body><header><h1>{title}</h1>"
    )
}

/// The page.
pub fn html(gather: &mut Gather, model: &Model, heading: &Heading) -> String {
    gather.cut();
    let mut page = head(&heading.title);
    let from = gather.first.map_or_else(String::new, |first| heading.zone.date_time(first.0));
    let _ = write!(page, "<p class=\"soft\">{}</p>", escape(&from));
    for problem in &heading.problems {
        let _ = write!(page, "<p><strong>Partial:</strong> {}</p>", escape(problem));
    }
    page += "</header><nav>";
    for (id, name) in [
        ("traffic", "Traffic"),
        ("protocols", "Protocols"),
        ("talkers", "Talkers"),
        ("streams", "Streams"),
        ("distributions", "Distributions"),
    ] {
        let _ = write!(page, "<a href=\"#{id}\">{name}</a>");
    }
    page += "</nav><main>";
    facts(&mut page, gather);
    traffic(&mut page, gather);
    protocols(&mut page, gather);
    talkers(&mut page, gather);
    streams(&mut page, gather);
    distributions(&mut page, gather, model);
    page + "<footer>Made by Weir.</footer></main></body></html>\n"
}

fn facts(page: &mut String, gather: &Gather) {
    let length = gather.first.map_or(0, |first| gather.last.since(first));
    let rate = |n: u64| n as f64 / (length.max(1) as f64 / 1e9);
    let facts = [
        ("Packets", figures::count(gather.packets)),
        ("Bytes", figures::bytes(gather.bytes)),
        ("Duration", figures::duration(length)),
        ("Flows", figures::count(gather.flows)),
        ("Hosts", figures::count(gather.hosts.len() as u64)),
        ("Mean rate", figures::bit_rate(rate(gather.bytes) * 8.0)),
        ("Packet rate", figures::packet_rate(rate(gather.packets))),
    ];
    *page += "<dl class=\"facts\">";
    for (name, value) in facts {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    *page += "</dl>";
}

fn traffic(page: &mut String, gather: &Gather) {
    *page += "<h2 id=\"traffic\">Traffic</h2>";
    if gather.moments.is_empty() {
        *page += "<p>No packets.</p>";
        return;
    }
    // The maximum is also given in words: on a narrow screen the figures in the chart are small.
    let max = gather.moments.iter().map(|moment| moment.bytes).max().unwrap_or_default();
    let highest = figures::bit_rate(max as f64 * 8e9 / gather.step.max(1) as f64);
    let label = format!("Bits per second, in steps of {}; at most {highest}", figures::duration(gather.step));
    let svg = chart::time(&gather.moments, gather.step, &escape(&label));
    let _ = write!(page, "<figure>{svg}<figcaption>{}</figcaption></figure>", escape(&label));
}

/// A table: the headings, then rows of cells that are already escaped.
fn table(page: &mut String, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    *page += "<div class=\"wide\"><table><thead><tr>";
    heads.iter().for_each(|head| {
        let _ = write!(page, "<th>{head}</th>");
    });
    *page += "</tr></thead><tbody>";
    for row in rows {
        *page += "<tr>";
        row.iter().for_each(|cell| {
            let _ = write!(page, "<td>{cell}</td>");
        });
        *page += "</tr>";
    }
    *page += "</tbody></table></div>";
}

fn bar(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    format!("<span class=\"bar\" style=\"width:{percent:.1}%\"></span>")
}

fn left_out(page: &mut String, shown: usize, all: usize) {
    if all > shown {
        let _ = write!(page, "<p class=\"soft\">{} of {}.</p>", shown, figures::count(all as u64));
    }
}

fn protocols(page: &mut String, gather: &Gather) {
    *page += "<h2 id=\"protocols\">Protocols</h2>";
    let mut rows: Vec<_> = gather.protocols.iter().collect();
    rows.sort_by(|a, b| b.1.2.cmp(&a.1.2).then(a.0.cmp(b.0)));
    let max = rows.first().map_or(0, |(_, total)| total.2);
    let shown = rows.iter().take(ROWS).map(|(name, (flows, packets, bytes))| {
        vec![
            escape(name),
            figures::count(*flows),
            figures::count(*packets),
            figures::bytes(*bytes),
            bar(*bytes, max),
        ]
    });
    table(page, &["Protocol", "Flows", "Packets", "Bytes", "Share"], shown);
    left_out(page, ROWS, rows.len());
    if !gather.records.is_empty() {
        *page += "<details><summary>Records</summary>";
        let rows = gather.records.iter().map(|(name, n)| vec![escape(name), figures::count(*n)]);
        table(page, &["Kind", "Records"], rows);
        *page += "</details>";
    }
}

fn talkers(page: &mut String, gather: &Gather) {
    *page += "<h2 id=\"talkers\">Talkers</h2>";
    let mut rows: Vec<_> = gather.hosts.iter().collect();
    rows.sort_by_key(|(address, host)| (std::cmp::Reverse(host.sent + host.received), **address));
    let max = rows.first().map_or(0, |(_, host)| host.sent + host.received);
    let shown = rows.iter().take(ROWS).map(|(address, host)| {
        vec![
            escape(&address.to_string()),
            figures::count(host.flows),
            figures::count(host.packets),
            figures::bytes(host.sent),
            figures::bytes(host.received),
            bar(host.sent + host.received, max),
        ]
    });
    let heads = ["Host", "Flows", "Packets", "Sent", "Received", "Share"];
    table(page, &heads, shown);
    left_out(page, ROWS, rows.len());
    if gather.other_hosts > 0 {
        let _ = write!(
            page,
            "<p class=\"soft\">Hosts beyond the maximum number are in {} flows.</p>",
            gather.other_hosts
        );
    }
}

fn streams(page: &mut String, gather: &Gather) {
    *page += "<h2 id=\"streams\">Streams</h2><p>The flows with the most bytes. The round trip is measured in the handshake; \
              loss, order and windows are given for the initiator and the responder.</p>";
    let time = |nanoseconds: Option<f64>| {
        nanoseconds.map_or_else(|| "–".to_owned(), |ns| chart::with_unit(ns / 1e9, "s"))
    };
    let rows = gather.streams.iter().take(ROWS).map(|StreamRow { record, measure, protocol }| {
        let [forward, reverse] = &measure.sides;
        let end = |(address, port): ([u8; 16], u16)| match Ipv6Addr::from(address).to_canonical() {
            address if !crate::ports::has_ports(record.key.proto) => address.to_string(),
            std::net::IpAddr::V6(v6) => format!("[{v6}]:{port}"),
            std::net::IpAddr::V4(v4) => format!("{v4}:{port}"),
        };
        let pair = |a: Option<String>, b: Option<String>| {
            let dash = || "–".to_owned();
            format!("{} / {}", a.unwrap_or_else(dash), b.unwrap_or_else(dash))
        };
        let percent = |share: f64| format!("{} %", number(share * 100.0));
        let window = |window: Option<u64>| window.map(figures::bytes);
        vec![
            escape(&end(record.initiator())),
            escape(&end(record.responder())),
            escape(protocol),
            figures::bytes(record.forward.payload_bytes),
            figures::bytes(record.reverse.payload_bytes),
            escape(&figures::duration(record.duration())),
            time(measure.handshake().map(|ns| ns as f64)),
            time(measure.first_byte.map(|ns| ns as f64)),
            pair(
                forward.jitter().map(|ns| chart::with_unit(ns / 1e9, "s")),
                reverse.jitter().map(|ns| chart::with_unit(ns / 1e9, "s")),
            ),
            pair(forward.loss().map(percent), reverse.loss().map(percent)),
            pair(Some(forward.out_of_order.to_string()), Some(reverse.out_of_order.to_string())),
            pair(forward.hops().map(|n| n.to_string()), reverse.hops().map(|n| n.to_string())),
            pair(window(forward.window_most), window(reverse.window_most)),
        ]
    });
    let heads = [
        "From",
        "To",
        "Protocol",
        "Sent",
        "Received",
        "Duration",
        "Round trip",
        "First byte",
        "Jitter",
        "Loss",
        "Out of order",
        "Hops",
        "Window",
    ];
    table(page, &heads, rows);
}

fn named(group: &Group) -> String {
    format!("{}, {} to {}", group.protocol, group.from, group.to)
}

/// The description of a fit.
fn words(fitted: &Fitted) -> String {
    let parameters = fitted.fit.parameters();
    let parameters: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
    format!("{} ({})", fitted.fit.name(), parameters.join(", "))
}

fn distributions(page: &mut String, gather: &Gather, model: &Model) {
    *page += "<h2 id=\"distributions\">Distributions</h2><p>The share of values up to each, \
              <span class=\"key\"></span> as seen and <span class=\"key fitted\"></span> as the nearest of four fits \
              (exponential, lognormal, Pareto, Weibull; by maximum likelihood). D is the Kolmogorov-Smirnov distance. \
              p is an upper bound, because the parameters come from the same values: a small p refutes the fit. \
              Hosts with private addresses are inside.</p>";
    if gather.shed > 0 {
        let _ = write!(
            page,
            "<p class=\"soft\">The first 256 values of a kind are counted for each flow; {} more were seen.</p>",
            figures::count(gather.shed)
        );
    }
    for (at, group) in model.groups.iter().take(DRAWN).enumerate() {
        let open = if at < 3 { " open" } else { "" };
        let _ = write!(
            page,
            "<details{open}><summary><strong>{}</strong> – {} flows</summary><div class=\"charts\">",
            escape(&named(group)),
            figures::count(group.flows)
        );
        let shown = QUANTITIES.iter().filter_map(|row| Some((row, group.quantities.get(row.0)?)));
        for ((_, unit, help), described) in shown {
            figure(page, help, unit, described);
        }
        *page += "</div></details>";
    }
    left_out(page, DRAWN, model.groups.len());
}

fn figure(page: &mut String, help: &str, unit: &str, described: &Described) {
    let middle = described.quantiles.get(50).copied().unwrap_or_default();
    let _ = write!(
        page,
        "<figure><strong>{help}</strong>{}<figcaption>{} values, mean {}, median {}",
        chart::distribution(described, unit, help),
        figures::count(described.count),
        chart::with_unit(described.mean, unit),
        chart::with_unit(middle, unit)
    );
    if let Some(fitted) = described.fits.first() {
        let _ = write!(page, "<br>{}: D {}, p {}", words(fitted), number(fitted.distance), number(fitted.p));
    }
    *page += "</figcaption></figure>";
}

/// `distributions.csv`: each quantity of each group, with its statistics and percentiles.
pub fn distributions_csv(model: &Model) -> String {
    let mut lines = String::from("protocol,from,to,quantity,unit,count,mean,least,most");
    (0..=100).for_each(|percent| {
        let _ = write!(lines, ",p{percent}");
    });
    lines += "\r\n";
    each(model, &mut lines, |line, described| {
        let figures = [described.count as f64, described.mean, described.min, described.max];
        for value in figures.iter().chain(&described.quantiles) {
            let _ = write!(line, ",{value}");
        }
        *line += "\r\n";
    });
    lines
}

/// `fits.csv`: each fit of each quantity of each group.
pub fn fits_csv(model: &Model) -> String {
    let head = "protocol,from,to,quantity,unit,rank,distribution,parameters,ks_distance,p\r\n";
    let mut lines = String::new();
    each(model, &mut lines, |line, described| {
        let begin = line.rfind('\n').map_or(0, |at| at + 1);
        let before = line.split_off(begin);
        for (rank, fitted) in described.fits.iter().enumerate() {
            let parameters = fitted.fit.parameters();
            let parameters: Vec<String> =
                parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let _ = write!(
                line,
                "{before},{},{},{},{},{}\r\n",
                rank + 1,
                fitted.fit.name(),
                parameters.join(" "),
                fitted.distance,
                fitted.p
            );
        }
    });
    head.to_owned() + &lines
}

/// Begins a line for each quantity.
fn each(model: &Model, lines: &mut String, mut rest: impl FnMut(&mut String, &Described)) {
    for group in &model.groups {
        for (name, unit, _) in QUANTITIES {
            let Some(described) = group.quantities.get(name) else { continue };
            let mut begin = Vec::new();
            for text in [&group.protocol, &group.from, &group.to] {
                cell(&mut begin, text);
                begin.push(b',');
            }
            lines.push_str(&String::from_utf8_lossy(&begin));
            let _ = write!(lines, "{name},{unit}");
            rest(lines, described);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{VERSION, Values};

    fn model(protocol: &str) -> Model {
        let mut values = Values::default();
        (1..=1000).for_each(|n| values.add(-(f64::from(n) / 1001.0).ln()));
        let quantities = [("think".to_owned(), Described::of(&values))].into();
        let (from, to) = ("inside".to_owned(), "outside".to_owned());
        let group =
            Group { protocol: protocol.to_owned(), from, to, ip_proto: 6, port: 80, flows: 9, quantities };
        Model { v: VERSION, groups: vec![group] }
    }

    #[test]
    fn a_page_contains_no_foreign_markup_and_fetches_nothing() {
        let evil = "<script>x</script>\"'&\u{1b}[2J\u{202e}";
        let heading = Heading { title: evil.to_owned(), zone: Zone::utc(), problems: vec![evil.to_owned()] };
        let mut gather = Gather::default();
        gather.protocols.insert(evil.to_owned(), (1, 2, 3));
        let page = html(&mut gather, &model(evil), &heading);
        assert!(page.contains("&lt;script&gt;x&lt;/script&gt;&quot;&#39;&amp;"));
        assert!(!page.contains("<script") && !page.contains('\u{1b}'));
        for fetched in ["http:", "https:", "src=", "url(", "@import", "<link"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        assert!(page.contains("class=\"fit\"") && page.contains("exponential"));
    }

    #[test]
    fn every_row_of_the_csv_has_all_columns() {
        let model = model("a,\"b");
        let lines = distributions_csv(&model);
        let rows: Vec<&str> = lines.split_terminator("\r\n").collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[1].starts_with("\"a,\"\"b\",inside,outside,think,s,1000,"), "{}", rows[1]);
        assert_eq!(rows[0].split(',').count() + 1, rows[1].split(',').count());
        let fits = fits_csv(&model);
        assert_eq!(fits.split_terminator("\r\n").count(), 1 + 4);
        assert!(
            fits.lines().all(|line| line.contains(",1,") == line.contains(",exponential,")
                || line.starts_with("protocol")
                || line.contains(",1,Weibull")),
            "{fits}"
        );
    }

    #[test]
    fn figures_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (0.12345, "0.123"),
            (12.34, "12.3"),
            (1234.0, "1234"),
            (4e-6, "4.00e-6"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
