//! The configuration of a run, as the pages show, check and apply it.

use crate::config::{self, Config};
use crate::desk::{Change, Desk};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use utoipa::ToSchema;
use weir_api::web::{Chart, ChartLine};
use weir_api::{Owner, Unit};
use weir_output::figures;
use weir_store::line_id;

/// Maximum errors of an answer.
const MAX_WRONG: usize = 100;
/// Time limit for minimising a difference.
const COMPARED: Duration = Duration::from_millis(200);

/// A value that overrides the file: key, value and origin.
pub type Given = (&'static str, String, &'static str);

/// The configuration in effect, and the means to apply another.
pub struct Configuration {
    path: Option<PathBuf>,
    current: Mutex<Current>,
    /// Values that override the file.
    given: Vec<Given>,
    desk: OnceLock<Arc<Desk>>,
}

struct Current {
    text: String,
    config: Config,
}

/// The configuration in effect.
#[derive(Serialize, ToSchema)]
pub struct Effective {
    /// Path of its file.
    #[schema(required = true)]
    path: Option<String>,
    /// Text of the file.
    text: String,
    /// All values with their origin.
    values: Vec<EffectiveValue>,
}

/// A value of the configuration.
#[derive(Serialize, ToSchema)]
pub struct EffectiveValue {
    /// Key, with its tables, joined by points.
    key: String,
    /// Value in effect.
    value: String,
    /// Origin: `default`, `command line`, `short capture`, or file and line.
    origin: String,
}

/// Result of checking a configuration.
#[derive(Serialize, ToSchema)]
pub struct Checked {
    /// Whether the configuration is valid.
    ok: bool,
    /// Whether it is now in effect.
    applied: bool,
    /// Errors.
    errors: Vec<Wrong>,
    /// Lines removed (`-`) and added (`+`).
    difference: String,
}

/// An error in a configuration.
#[derive(Serialize, ToSchema)]
pub struct Wrong {
    /// Line, counted from 1; 0 for the whole text.
    line: usize,
    /// Column, counted from 1, in characters.
    column: usize,
    /// The error.
    message: String,
    /// Accepted values.
    #[schema(required = true)]
    help: Option<String>,
}

/// Result of applying a configuration.
pub struct Applied {
    pub checked: Checked,
    /// Text of the event after it was applied.
    pub text: Option<String>,
}

impl Configuration {
    /// Reads the file, if any; `given` overrides it.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn read(path: Option<&Path>, given: Vec<Given>) -> Result<Self, String> {
        let (text, config) = match path {
            None => (String::new(), Config::default()),
            Some(path) => {
                let text = config::read_text(path)?;
                let config = config::load(path, &text).map_err(|errors| errors.to_string())?;
                (text, config)
            }
        };
        let current = Mutex::new(Current { text, config });
        Ok(Self { path: path.map(Path::to_owned), current, given, desk: OnceLock::new() })
    }

    /// Sets the values that override the file.
    pub fn with(mut self, given: Vec<Given>) -> Self {
        self.given = given;
        self
    }

    /// The expression of the file.
    pub fn expression(&self) -> String {
        self.current().config.expression.value.clone()
    }

    /// Enables applying configurations to a run.
    pub fn control(&self, desk: Arc<Desk>) {
        // A process has one run.
        let _ = self.desk.set(desk);
    }

    /// Whether a configuration can be applied.
    pub fn can_apply(&self) -> bool {
        self.desk.get().is_some()
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown_path(&self) -> String {
        self.path.as_ref().map_or("weir.toml".to_owned(), |path| path.display().to_string())
    }

    /// All values in effect.
    pub fn effective(&self) -> Effective {
        let current = self.current();
        let file = self.shown_path();
        let values = config::settings(&current.config).into_iter().map(|(key, value, line)| {
            match self.given.iter().find(|(name, ..)| *name == key) {
                Some((_, given, origin)) => {
                    EffectiveValue { key: key.to_owned(), value: given.clone(), origin: (*origin).to_owned() }
                }
                None => EffectiveValue {
                    key: key.to_owned(),
                    value,
                    origin: line.map_or("default".to_owned(), |line| format!("{file}:{line}")),
                },
            }
        });
        Effective {
            values: values.collect(),
            path: self.path.as_ref().map(|path| path.display().to_string()),
            text: current.text.clone(),
        }
    }

    /// The configured charts.
    pub fn charts(&self) -> Vec<Chart> {
        self.current().config.charts.iter().map(chart).collect()
    }

    /// Checks a configuration and shows what it changes.
    pub fn check(&self, text: &str) -> Checked {
        self.read_text(text).0
    }

    fn read_text(&self, text: &str) -> (Checked, Option<Config>) {
        let difference = difference(&self.current().text, text);
        match config::load(Path::new(&self.shown_path()), text) {
            Ok(config) => {
                (Checked { ok: true, applied: false, errors: Vec::new(), difference }, Some(config))
            }
            Err(errors) => {
                let wrong = |(line, column, message, help): (usize, usize, &str, &str)| Wrong {
                    line,
                    column,
                    message: message.to_owned(),
                    help: Some(help.to_owned()).filter(|help| !help.is_empty()),
                };
                let all = errors.each().count();
                let mut errors: Vec<Wrong> = errors.each().take(MAX_WRONG).map(wrong).collect();
                if all > MAX_WRONG {
                    let more = figures::counted((all - MAX_WRONG) as u64, "more error");
                    errors.push(wrong((0, 0, &more, "")));
                }
                (Checked { ok: false, applied: false, errors, difference }, None)
            }
        }
    }

    /// Applies a configuration: compiles the plan, writes the file, then passes the plan to the workers. An error changes
    /// nothing.
    pub fn apply(&self, text: &str) -> Applied {
        let (mut checked, config) = self.read_text(text);
        let Some(config) = config else { return Applied { checked, text: None } };
        let refuse = |checked: Checked, line: usize, message: String, help: &str| Applied {
            checked: Checked {
                errors: vec![Wrong { line, column: 1, message, help: Some(help.to_owned()) }],
                ..checked
            },
            text: None,
        };
        let mut current = self.current();
        if let Some((key, line)) = needs_a_start(&current.config, &config) {
            let help = "only charts, subscriptions and the expression can be changed during a run";
            let message = format!("{key} cannot be changed during a run: restart to apply it");
            return refuse(Checked { ok: false, ..checked }, line.unwrap_or(0), message, help);
        }
        let Some(desk) = self.desk.get() else {
            return refuse(
                checked,
                0,
                "no live capture: a configuration cannot be applied".to_owned(),
                "`weir serve -i IF`",
            );
        };
        // The command line overrides the file.
        let given = self.given.iter().find(|(key, ..)| *key == "expression");
        let expression = given.map_or(config.expression.value.as_str(), |(_, expression, _)| expression);
        let changes = vec![
            Change::Expression(expression.to_owned()),
            Change::Replace(Owner::Configuration, config.plan()),
        ];
        let prepared = match desk.prepare(changes) {
            Ok(prepared) => prepared,
            Err(error) => return refuse(Checked { ok: false, ..checked }, 0, error, "another expression"),
        };
        if let Some(path) = &self.path
            && let Err(error) = weir_files::rewrite(path, text.as_bytes())
        {
            let message = format!("{error}; nothing was changed");
            return refuse(checked, 0, message, "a file that can be written");
        }
        prepared.post();
        let (added, taken) = counts(&checked.difference);
        checked.applied = true;
        *current = Current { text: text.to_owned(), config };
        Applied { checked, text: Some(format!("configuration applied: +{added} -{taken} lines")) }
    }
}

/// Finds the first changed setting that needs a restart, with its line.
fn needs_a_start(old: &Config, new: &Config) -> Option<(&'static str, Option<usize>)> {
    let (before, after) = (config::settings(old), config::settings(new));
    let differs = before.iter().zip(&after).find(|((key, a, _), (_, b, _))| *key != "expression" && a != b);
    let differs = differs.map(|(_, (key, _, line))| (*key, *line));
    differs.or_else(|| (old.anon != new.anon).then_some(("anon", None)))
}

fn chart(chart: &config::Chart) -> Chart {
    let line = |name: &str, expression: &str, remainder: bool| ChartLine {
        id: line_id(&chart.name, name, chart.unit == Unit::Bytes),
        name: name.to_owned(),
        expression: expression.to_owned(),
        remainder,
    };
    let mut lines: Vec<ChartLine> = chart.lines.iter().map(|l| line(&l.name, &l.expression, false)).collect();
    if chart.xtra {
        lines.push(line(config::XTRA, "", true));
    }
    Chart {
        name: chart.name.clone(),
        title: chart.name.clone(),
        unit: match chart.unit {
            Unit::Bytes => "bits/s",
            Unit::Packets => "packets/s",
        }
        .to_owned(),
        configured: true,
        lines,
    }
}

/// Lines removed and added between two texts, without context.
fn difference(old: &str, new: &str) -> String {
    let mut out = String::new();
    let lines = TextDiff::configure().timeout(COMPARED).diff_lines(old, new);
    for change in lines.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal) {
        let _ = writeln!(out, "{}{}", change.tag(), change.value().trim_end_matches(['\r', '\n']));
    }
    out
}

fn counts(difference: &str) -> (usize, usize) {
    let of = |sign: char| difference.lines().filter(|line| line.starts_with(sign)).count();
    (of('+'), of('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::{ChecksumMode, Settings};
    use weir_filter::Options;

    #[test]
    fn differences() {
        assert_eq!(difference("a\nb\nc\n", "a\nb\nc\n"), "");
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\n"), "-b\n+x\n");
        assert_eq!(difference("", "a\nb\n"), "+a\n+b\n");
        assert_eq!(difference("a\nb\nc\nd\n", "b\nx\nd\n"), "-a\n-c\n+x\n");
        let long = "x\n".repeat(2009);
        assert_eq!(counts(&difference(&long, "")), (0, 2009));
    }

    fn desk() -> Arc<Desk> {
        let settings = Settings { filter: Options::default(), checksum: ChecksumMode::Off, seed: 1 };
        Arc::new(Desk::new(settings, "", Vec::new(), Vec::new(), 1).unwrap())
    }

    const CHART: &str =
        "[[chart]]\nname = \"c\"\nunit = \"packets\"\nlines = [{ name = \"a\", expression = \"tcp\" }]\n";

    #[test]
    fn an_invalid_configuration_changes_nothing_and_a_valid_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, "interval = \"30s\"\n").unwrap();
        let configuration = Configuration::read(Some(&path), Vec::new()).unwrap();
        let desk = desk();
        assert!(!configuration.can_apply());
        configuration.control(Arc::clone(&desk));

        let good = format!("interval = \"30s\"\nexpression = \"tcp\"\n{CHART}");
        assert!(configuration.check(&good).ok);
        for bad in [
            "intervall = 3\n".to_owned(),
            "interval = \"60s\"\n".to_owned(),
            "interval = \"30s\"\nexpression = \"udp (\"\n".to_owned(),
            "interval = \"30s\"\n[anon]\nmode = \"nullip\"\n".to_owned(),
            "= ".repeat(1000),
        ] {
            let Applied { checked, text } = configuration.apply(&bad);
            assert!(!checked.ok && !checked.applied && !checked.errors.is_empty() && text.is_none(), "{bad}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "interval = \"30s\"\n");
            assert!(desk.subscriptions().is_empty());
        }
        let Applied { checked, text } = configuration.apply(&good);
        assert!(checked.ok && checked.applied, "{}", checked.errors.len());
        assert_eq!(text.as_deref(), Some("configuration applied: +5 -0 lines"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
        assert_eq!((desk.subscriptions().len(), desk.expression().as_str()), (1, "tcp"));
        assert_eq!(configuration.charts().len(), 1);
        let values = configuration.effective().values;
        let of = |key: &str| values.iter().find(|value| value.key == key).map(|value| value.origin.clone());
        assert!(of("interval").unwrap().ends_with("weir.toml:1") && of("memory").unwrap() == "default");
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let configuration =
            Configuration::read(None, vec![("interval", "10s".to_owned(), "command line")]).unwrap();
        let values = configuration.effective().values;
        let interval = values.iter().find(|value| value.key == "interval").unwrap();
        assert_eq!((interval.value.as_str(), interval.origin.as_str()), ("10s", "command line"));
    }
}
