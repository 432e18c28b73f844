//! `weir explain --plan`: the plan of a run, without the run.

use super::Run;
use super::request::Request;
use crate::cli::{Cli, Command};
use crate::desk::Described;
use crate::exit::{Exit, complain, print};
use crate::leaving::Leaving;
use crate::{syslog, webhook};
use clap::Parser;
use std::fmt::Write as _;
use weir_engine::{Plan, Target};
use weir_output::figures::{counted, printable};
use weir_output::{Log, aligned};

/// Prints the plan of a run with these options: those of `weir`, or `open` or `serve` and theirs.
pub fn explain(options: &[String], json: bool) -> Exit {
    let cli = match Cli::try_parse_from(std::iter::once("weir").chain(options.iter().map(String::as_str))) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return Exit::Usage;
        }
    };
    let (options, pages) = match cli.command {
        None => (cli.run, false),
        Some(Command::Open(open)) => (open.run, true),
        Some(Command::Serve(serve)) => (serve.run, true),
        Some(_) => {
            return complain(Exit::Usage, "--plan: only runs have a plan: `weir`, `weir open`, `weir serve`");
        }
    };
    let described = Request::new(&options).and_then(|mut request| {
        request.pages = pages;
        let logs = Run::logs(&request, pages)?;
        let desk = Run::desk(&options, &request, &logs)?;
        let plan = desk.plan();
        let mut described = desk.described();
        described.leaves = desk.leaves();
        described.leaves.extend(without_rows(&logs, &plan));
        let servers = [
            (syslog::NAME, request.syslog.as_ref().map(ToString::to_string)),
            // The path of a webhook may be a secret.
            (webhook::NAME, request.webhook.as_ref().map(webhook::Address::server)),
        ];
        for (name, server) in servers.into_iter().filter_map(|(name, server)| Some((name, server?))) {
            let of_server = described.leaves.iter_mut().filter(|one| one.what == name);
            of_server.for_each(|one| one.to.clone_from(&server));
        }
        described.leaves.sort_by_key(|one| one.subscription);
        Ok(described)
    });
    let text = match described {
        Ok(described) if json => serde_json::to_string(&described).unwrap_or_default() + "\n",
        Ok(described) => table(&described),
        Err((exit, error)) => return complain(exit, error),
    };
    print(&text)
}

/// The logs that have readings alone, so that no function delivers to them.
fn without_rows(logs: &[Log], plan: &Plan) -> Vec<Leaving> {
    let has_rows = |name: &str| {
        plan.targets().any(|(_, target)| matches!(target, Target::Rows(rows) if *rows.log == *name))
    };
    let names = logs.iter().map(|log| log.spec().name).filter(|name| !has_rows(name));
    names
        .map(|name| Leaving { what: "log of the run".to_owned(), to: name.to_owned(), subscription: None })
        .collect()
}

/// The plan as a table, and the demand that follows from it.
fn table(described: &Described) -> String {
    let mut text =
        format!("Plan {}: {}", described.plan, counted(described.subscriptions.len() as u64, "subscription"));
    if !described.expression.is_empty() {
        let _ = write!(text, " over packets that match `{}`", printable(&described.expression));
    }
    text.push_str("\n\n");
    let rows: Vec<[String; 7]> = std::iter::once(
        ["id", "owner", "level", "name", "expression", "functions", "outputs"].map(str::to_owned),
    )
    .chain(described.subscriptions.iter().map(|one| {
        let name = one.chart.as_ref().map_or(one.name.clone(), |chart| format!("{chart} / {}", one.name));
        let expression = match (one.remainder, one.expression.as_str()) {
            (true, _) => "the rest of its chart",
            (false, "") => "all",
            (false, expression) => expression,
        };
        let mut outputs = match &one.outputs {
            Some(names) if names.is_empty() => "none".to_owned(),
            names => names.as_deref().unwrap_or_default().join(", "),
        };
        if one.interval > 0.0 {
            outputs = format!("{outputs} every {} s", one.interval).trim_start().to_owned();
        }
        let cells = [
            one.id.to_string(),
            one.owner.clone(),
            one.level.clone(),
            name,
            expression.to_owned(),
            one.functions.join(", "),
            outputs,
        ];
        cells.map(|cell| printable(&cell))
    }))
    .collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().min(44)
    });
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    if !described.leaves.is_empty() {
        text.push_str("\nWhat leaves:\n");
        let from = |number: u32| {
            let found = described.subscriptions.iter().find(|one| one.id == number);
            format!("{number} {}", found.map_or("", |one| &one.name))
        };
        let row = |one: &Leaving| {
            let from = one.subscription.map_or_else(|| "all".to_owned(), from);
            [&one.what, &one.to, &from].map(|cell| printable(cell)).to_vec()
        };
        let rows: Vec<Vec<String>> = described.leaves.iter().map(row).collect();
        let head = ["what", "to", "from"].map(str::to_owned);
        aligned(&head, &rows, &[]).lines().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    text.push_str("\nThe pass therefore has:\n");
    for line in &described.demand {
        let _ = writeln!(text, "  {line}");
    }
    text
}
