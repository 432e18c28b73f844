//! The configuration of a run as the pages show, check and change it.

use crate::config::{self, Config};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use utoipa::ToSchema;
use weir_api::web::{Chart, ChartLine};
use weir_api::{SubscriptionSpec, Unit};
use weir_output::figures;
use weir_output::store::sqlite::line_id;

/// Mistakes of a text that are answered.
const MAX_WRONG: usize = 100;
/// How long a difference is made shorter; then it is shown as it is.
const COMPARED: Duration = Duration::from_millis(200);

/// What can be changed while a run lasts.
pub trait Control: Send + Sync {
    /// Makes a plan of an expression and subscriptions; what is given back puts it into effect.
    ///
    /// # Errors
    /// What is wrong with it.
    fn prepare(
        &self,
        expression: &str,
        subscriptions: Vec<SubscriptionSpec>,
    ) -> Result<Box<dyn FnOnce() + '_>, String>;
}

/// A value that does not come from the file: its key there, the value, and where it comes from.
pub type Given = (&'static str, String, &'static str);

/// What is in effect, and how to put something else into effect.
pub struct Configuration {
    path: Option<PathBuf>,
    current: Mutex<Current>,
    /// What holds whatever the file says, by its keys, and why.
    given: Vec<Given>,
    control: OnceLock<Box<dyn Control>>,
}

struct Current {
    text: String,
    config: Config,
}

/// The configuration that is in effect.
#[derive(Serialize, ToSchema)]
pub struct Effective {
    /// Its file.
    path: Option<String>,
    /// What stands in it.
    text: String,
    /// Every value, and where it comes from.
    values: Vec<EffectiveValue>,
}

/// A value of the configuration.
#[derive(Serialize, ToSchema)]
pub struct EffectiveValue {
    /// Its key, tables before it joined by a point.
    key: String,
    /// As it is in effect.
    value: String,
    /// `default`, `command line`, `short capture`, or the file and its line.
    origin: String,
}

/// What there is to say of a text.
#[derive(Serialize, ToSchema)]
pub struct Checked {
    /// Whether it is a good configuration.
    ok: bool,
    /// Whether it is in effect now.
    applied: bool,
    /// What is wrong with it.
    errors: Vec<Wrong>,
    /// Lines that it takes away (`-`) and brings (`+`).
    difference: String,
}

/// Something that is wrong with a text, and where.
#[derive(Serialize, ToSchema)]
pub struct Wrong {
    /// Counted from 1; 0 where it is about all of it.
    line: usize,
    /// Counted from 1, in characters.
    column: usize,
    /// What was found.
    message: String,
    /// What would be accepted.
    help: Option<String>,
}

/// What became of a text that was to be put into effect.
pub struct Applied {
    pub checked: Checked,
    /// For those who read what has happened.
    pub text: Option<String>,
}

impl Configuration {
    /// What the file says, if there is one, and what the command line says.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
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
        Ok(Self { path: path.map(Path::to_owned), current, given, control: OnceLock::new() })
    }

    /// The same with what holds whatever the file says.
    pub fn with(mut self, given: Vec<Given>) -> Self {
        self.given = given;
        self
    }

    /// The expression of the file.
    pub fn expression(&self) -> String {
        self.current().config.expression.value.clone()
    }

    /// From now on it can be changed.
    pub fn control(&self, control: Box<dyn Control>) {
        // There is one run.
        let _ = self.control.set(control);
    }

    /// Whether anything is there to be changed.
    pub fn can_apply(&self) -> bool {
        self.control.get().is_some()
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown_path(&self) -> String {
        self.path.as_ref().map_or("weir.toml".to_owned(), |path| path.display().to_string())
    }

    /// What is in effect.
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

    /// The charts that were configured.
    pub fn charts(&self) -> Vec<Chart> {
        self.current().config.charts.iter().map(chart).collect()
    }

    /// Whether a text is good, and what it changes.
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

    /// Puts a text into effect: first the plan is made, then the file is written, then workers are told. What fails
    /// leaves everything as it was.
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
            let help = "charts, subscriptions and the expression can be changed while a run lasts";
            let message = format!("{key} holds from the next start on");
            return refuse(Checked { ok: false, ..checked }, line.unwrap_or(0), message, help);
        }
        let Some(control) = self.control.get() else {
            return refuse(checked, 0, "there is no run to change".to_owned(), "`weir serve -i IF`");
        };
        // What the command line says holds.
        let given = self.given.iter().find(|(key, ..)| *key == "expression");
        let expression = given.map_or(config.expression.value.as_str(), |(_, expression, _)| expression);
        let ready = match control.prepare(expression, config.plan()) {
            Ok(ready) => ready,
            Err(error) => return refuse(Checked { ok: false, ..checked }, 0, error, "another expression"),
        };
        if let Some(path) = &self.path
            && let Err(error) = weir_files::rewrite(path, text.as_bytes())
        {
            let message = format!("{error}: nothing was changed");
            return refuse(checked, 0, message, "a file that can be written");
        }
        ready();
        let (added, taken) = counts(&checked.difference);
        checked.applied = true;
        *current = Current { text: text.to_owned(), config };
        Applied { checked, text: Some(format!("a configuration was applied: +{added} -{taken} lines")) }
    }
}

/// The first setting that differs and that a run cannot change, with its line.
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

/// Lines that come and go between two texts, without those around them.
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex as StdMutex};

    #[test]
    fn differences() {
        assert_eq!(difference("a\nb\nc\n", "a\nb\nc\n"), "");
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\n"), "-b\n+x\n");
        assert_eq!(difference("", "a\nb\n"), "+a\n+b\n");
        assert_eq!(difference("a\nb\nc\nd\n", "b\nx\nd\n"), "-a\n-c\n+x\n");
        let long = "x\n".repeat(2009);
        assert_eq!(counts(&difference(&long, "")), (0, 2009));
    }

    /// Counts plans that were put into effect, and refuses an expression.
    struct Run(Arc<AtomicUsize>, Arc<StdMutex<String>>);

    impl Control for Run {
        fn prepare(
            &self,
            expression: &str,
            specs: Vec<SubscriptionSpec>,
        ) -> Result<Box<dyn FnOnce() + '_>, String> {
            if expression == "udp" {
                return Err("no plan".to_owned());
            }
            let (text, n) = (expression.to_owned(), specs.len());
            Ok(Box::new(move || {
                self.0.store(n, Ordering::Relaxed);
                *self.1.lock().unwrap() = text;
            }))
        }
    }

    const CHART: &str =
        "[[chart]]\nname = \"c\"\nunit = \"packets\"\nlines = [{ name = \"a\", expression = \"tcp\" }]\n";

    #[test]
    fn what_is_bad_changes_nothing_and_what_is_good_is_written_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, "interval = \"30s\"\n").unwrap();
        let configuration = Configuration::read(Some(&path), Vec::new()).unwrap();
        let (lines, expression) = (Arc::new(AtomicUsize::new(0)), Arc::new(StdMutex::new(String::new())));
        assert!(!configuration.can_apply());
        configuration.control(Box::new(Run(Arc::clone(&lines), Arc::clone(&expression))));

        let good = format!("interval = \"30s\"\nexpression = \"tcp\"\n{CHART}");
        assert!(configuration.check(&good).ok);
        for bad in [
            "intervall = 3\n".to_owned(),
            "interval = \"60s\"\n".to_owned(),
            "interval = \"30s\"\nexpression = \"udp\"\n".to_owned(),
            "interval = \"30s\"\n[anon]\nmode = \"nullip\"\n".to_owned(),
            "= ".repeat(1000),
        ] {
            let Applied { checked, text } = configuration.apply(&bad);
            assert!(!checked.ok && !checked.applied && !checked.errors.is_empty() && text.is_none(), "{bad}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "interval = \"30s\"\n");
            assert_eq!(lines.load(Ordering::Relaxed), 0);
        }
        let Applied { checked, text } = configuration.apply(&good);
        assert!(checked.ok && checked.applied, "{}", checked.errors.len());
        assert_eq!(text.as_deref(), Some("a configuration was applied: +5 -0 lines"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
        assert_eq!((lines.load(Ordering::Relaxed), expression.lock().unwrap().as_str()), (1, "tcp"));
        assert_eq!(configuration.charts().len(), 1);
        let values = configuration.effective().values;
        let of = |key: &str| values.iter().find(|value| value.key == key).map(|value| value.origin.clone());
        assert!(of("interval").unwrap().ends_with("weir.toml:1") && of("memory").unwrap() == "default");
    }

    #[test]
    fn the_command_line_wins() {
        let configuration =
            Configuration::read(None, vec![("interval", "10s".to_owned(), "command line")]).unwrap();
        let values = configuration.effective().values;
        let interval = values.iter().find(|value| value.key == "interval").unwrap();
        assert_eq!((interval.value.as_str(), interval.origin.as_str()), ("10s", "command line"));
    }
}
