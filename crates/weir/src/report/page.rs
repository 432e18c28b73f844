//! A report about hosts as a page: one file without a script, which requests nothing. All text is escaped.

use super::gather::HostsReport;
use super::text::{head, heading, sections};
use std::fmt::Write as _;
use weir_output::report::{self, escape};

/// The page, with at most `limit` hosts in a section.
pub fn page(of: &HostsReport, limit: usize) -> String {
    let sections = sections(of);
    let mut page = report::head(&heading(of));
    let above: Vec<String> = head(of).iter().skip(1).map(|line| escape(line)).collect();
    let _ = write!(page, "<pre>{}</pre></header><nav>", above.join("\n"));
    for (at, section) in sections.iter().enumerate() {
        let name = section.title.split(':').next().unwrap_or_default();
        let _ = write!(page, "<a href=\"#s{at}\">{} {}</a>", escape(name), section.hosts.len());
    }
    page += "</nav><main>";
    for (at, section) in sections.iter().enumerate() {
        let _ =
            write!(page, "<h2 id=\"s{at}\">{}</h2><p>{}</p>", escape(&section.title), escape(&section.about));
        if section.hosts.is_empty() {
            continue;
        }
        page += "<div class=\"wide\"><table><tr><th>host</th><th class=\"text\">name</th><th class=\"text\">facts</th></tr>";
        for (host, lines) in section.hosts.iter().take(limit) {
            let name = of.names.get(host).map(|name| escape(name)).unwrap_or_default();
            let lines: Vec<String> = lines.iter().map(|line| escape(line.trim_start())).collect();
            let facts = lines.join("<br>");
            let _ = write!(
                page,
                "<tr><td>{host}</td><td class=\"text\">{name}</td><td class=\"text\">{facts}</td></tr>"
            );
        }
        page += "</table></div>";
        if let Some(more) = section.hosts.len().checked_sub(limit).filter(|more| *more > 0) {
            let _ = write!(page, "<p class=\"soft\">... and {more} more: --limit 0 shows all</p>");
        }
    }
    page + "<footer>Made by Weir.</footer></main></body></html>\n"
}
