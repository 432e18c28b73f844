//! The configuration of a run, as the pages show and check it, and as it is applied to a live run.

use crate::config::{self, Config};
use crate::fields::RunFields;
use crate::privileges::may_write;
use crossbeam_channel::{Receiver, Sender};
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};
use std::collections::BTreeSet;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use utoipa::ToSchema;
use weir_api::Unit;
use weir_api::web::{Chart, ChartLine};
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
    /// The live run that applies configurations.
    run: OnceLock<Sender<Submitted>>,
}

struct Current {
    text: String,
    config: Config,
    /// Settings of the text that need a restart.
    restart: Vec<&'static str>,
}

/// A configuration that a live run is asked to apply.
pub struct Submitted {
    /// Its text, which becomes the text of the file.
    pub text: String,
    /// The parsed text.
    pub config: Config,
    /// Whether it is only checked: nothing is opened, written or changed.
    pub is_check: bool,
    answer: Sender<Result<Vec<&'static str>, Refusal>>,
}

/// Why a configuration was not applied. Nothing was changed.
pub struct Refusal {
    /// The error.
    pub message: String,
    /// What would be accepted.
    pub help: String,
}

impl Refusal {
    /// A refusal with help.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl Submitted {
    /// Answers with the settings that need a restart, or with the reason why nothing was changed.
    pub fn answer(self, result: Result<Vec<&'static str>, Refusal>) {
        // A client that has left gets no answer.
        let _ = self.answer.send(result);
    }
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
#[derive(Deserialize, Serialize, ToSchema)]
pub struct Checked {
    /// Whether the configuration is valid.
    ok: bool,
    /// Whether it is now in effect.
    pub applied: bool,
    /// Errors.
    pub errors: Vec<Wrong>,
    /// Lines removed (`-`) and added (`+`).
    pub difference: String,
    /// Settings that need a restart. All others are in effect if `applied`.
    pub restart: Vec<String>,
}

impl Checked {
    /// Numbers of lines added and removed.
    pub fn changed(&self) -> (usize, usize) {
        counts(&self.difference)
    }

    /// The result if the live run refuses the configuration.
    fn refused(self, Refusal { message, help }: Refusal) -> Self {
        let errors = vec![Wrong { line: 0, column: 1, message, help: Some(help) }];
        Self { ok: false, errors, ..self }
    }
}

/// An error in a configuration.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct Wrong {
    /// Line, counted from 1; 0 for the whole text.
    pub line: usize,
    /// Column, counted from 1, in characters.
    pub column: usize,
    /// The error.
    pub message: String,
    /// Accepted values.
    #[schema(required = true)]
    pub help: Option<String>,
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
        let current = Mutex::new(Current { text, config, restart: Vec::new() });
        Ok(Self { path: path.map(Path::to_owned), current, given, run: OnceLock::new() })
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

    /// The lists that the configuration in effect names, which are the files that texts of clients may name.
    pub fn lists(&self) -> BTreeSet<String> {
        self.current().config.lists.clone()
    }

    /// Enables applying configurations: the live run answers each one that it receives.
    pub fn control(&self) -> Receiver<Submitted> {
        let (to, from) = crossbeam_channel::unbounded();
        // A process has one run.
        let _ = self.run.set(to);
        from
    }

    /// Whether a configuration can be applied.
    pub fn can_apply(&self) -> bool {
        self.run.get().is_some()
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// The file cannot be read, or all of its errors.
    pub fn read_again(&self) -> Result<(String, Config), String> {
        let path = self.path.as_ref().ok_or("the run has no configuration file")?;
        let text = config::read_text(path)?;
        let config = config::load(path, &text).map_err(|errors| errors.to_string())?;
        Ok((text, config))
    }

    /// Writes a text into the file, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, text: &str) -> Result<(), Refusal> {
        let Some(path) = &self.path else { return Ok(()) };
        weir_files::rewrite(path, text.as_bytes()).map_err(unwritable)
    }

    /// Checks that the file can be written, if there is one.
    ///
    /// # Errors
    /// The process may not write it.
    pub fn may_write(&self) -> Result<(), Refusal> {
        self.path.as_ref().map_or(Ok(()), |path| may_write(path).map_err(unwritable))
    }

    /// What a configuration changes in a live run: it with the other settings in effect, and those that need a restart.
    pub fn changing(&self, config: Config) -> (Config, Vec<&'static str>) {
        config.changing(&self.current().config)
    }

    /// Records the configuration that was put into effect, its text, and the settings of the text that need a restart.
    /// Returns how many lines were added and removed.
    pub fn set(&self, text: String, config: Config, restart: Vec<&'static str>) -> (usize, usize) {
        let mut current = self.current();
        let changed = counts(&difference(&current.text, &text));
        *current = Current { text, config, restart };
        changed
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of the file for messages.
    pub fn shown_path(&self) -> String {
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
                None if current.restart.contains(&key) => EffectiveValue {
                    key: key.to_owned(),
                    value,
                    origin: "before the restart that it needs".to_owned(),
                },
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
        let checked = |errors: Vec<Wrong>, restart: Vec<String>| Checked {
            ok: errors.is_empty(),
            applied: false,
            errors,
            difference,
            restart,
        };
        // The text is that of a client.
        let fields = RunFields::of_client(self.lists());
        match config::load_with(Path::new(&self.shown_path()), text, &fields) {
            Ok(config) => {
                let (_, restart) = self.changing(config.clone());
                (checked(Vec::new(), names(&restart)), Some(config))
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
                (checked(errors, Vec::new()), None)
            }
        }
    }

    /// Checks a configuration as [`Configuration::check`] does, and asks the live run whether it would apply it.
    pub fn check_by_run(&self, text: &str) -> Checked {
        match self.read_text(text) {
            (checked, Some(config)) => match self.ask(text, config, true) {
                Ok(restart) => Checked { restart: names(&restart), ..checked },
                Err(refusal) => checked.refused(refusal),
            },
            (checked, None) => checked,
        }
    }

    /// Asks the live run, and waits for its answer: the settings that need a restart.
    fn ask(&self, text: &str, config: Config, is_check: bool) -> Result<Vec<&'static str>, Refusal> {
        let (answer, answered) = crossbeam_channel::bounded(1);
        let asked = self.run.get().is_some_and(|run| {
            let submitted = Submitted { text: text.to_owned(), config, is_check, answer };
            run.send(submitted).is_ok()
        });
        match asked.then(|| answered.recv()) {
            Some(Ok(result)) => result,
            _ => {
                Err(Refusal::new("no live capture: a configuration cannot be applied", "`weir serve -i IF`"))
            }
        }
    }

    /// Asks the live run to apply a configuration, and waits for its answer. An error changes nothing.
    pub fn apply(&self, text: &str) -> Applied {
        let (mut checked, config) = self.read_text(text);
        let Some(config) = config else { return Applied { checked, text: None } };
        match self.ask(text, config, false) {
            Ok(restart) => {
                checked.applied = true;
                checked.restart = names(&restart);
                Applied { text: Some(applied_text(checked.changed(), &checked.restart)), checked }
            }
            Err(refusal) => Applied { checked: checked.refused(refusal), text: None },
        }
    }
}

/// The refusal of a configuration whose file cannot be written.
fn unwritable(error: impl Display) -> Refusal {
    Refusal::new(format!("{error}; nothing was changed"), "a file that can be written")
}

/// Text about an applied configuration: the number of added and removed lines, and the settings that need a restart.
pub fn applied_text((added, taken): (usize, usize), restart: &[impl AsRef<str>]) -> String {
    let restart = match restart {
        [] => String::new(),
        keys => {
            let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
            format!("; needs a restart: {}", keys.join(", "))
        }
    };
    format!("configuration applied: +{added} -{taken} lines{restart}")
}

fn names(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
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
    use crate::desk::{Change, Desk};
    use std::sync::Arc;
    use weir_api::Owner;
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
        let settings = Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        Arc::new(Desk::new(settings, "", Vec::new(), Vec::new(), 1, 1).unwrap())
    }

    /// A live run without outputs.
    fn run(configuration: &Arc<Configuration>, desk: &Arc<Desk>) {
        let (configuration, desk, submitted) =
            (Arc::clone(configuration), Arc::clone(desk), configuration.control());
        std::thread::spawn(move || {
            for one in submitted {
                let (config, restart) = configuration.changing(one.config.clone());
                let changes = vec![
                    Change::Expression(config.expression.value.clone()),
                    Change::Replace(Owner::Configuration, config.plan()),
                ];
                let prepared = desk.prepare(changes).map_err(|error| Refusal::new(error, ""));
                let result = prepared.and_then(|prepared| {
                    configuration.write(&one.text)?;
                    prepared.post();
                    configuration.set(one.text.clone(), config, restart.clone());
                    Ok(restart)
                });
                one.answer(result);
            }
        });
    }

    const CHART: &str =
        "[[chart]]\nname = \"c\"\nunit = \"packets\"\nlines = [{ name = \"a\", expression = \"tcp\" }]\n";

    #[test]
    fn an_invalid_configuration_changes_nothing_and_a_valid_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, "interval = \"30s\"\n").unwrap();
        let configuration = Arc::new(Configuration::read(Some(&path), Vec::new()).unwrap());
        let desk = desk();
        assert!(!configuration.can_apply() && !configuration.apply(CHART).checked.ok);
        run(&configuration, &desk);

        let good = format!("interval = \"30s\"\nexpression = \"tcp\"\n{CHART}");
        assert!(configuration.check(&good).ok);
        for bad in [
            "intervall = 3\n".to_owned(),
            "interval = \"30s\"\nexpression = \"udp (\"\n".to_owned(),
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

        // What needs a restart is named, and the rest is applied.
        let other = format!("interval = \"60s\"\nexpression = \"udp\"\n{CHART}[anon]\nmode = \"nullip\"\n");
        assert_eq!(configuration.check(&other).restart, ["interval", "anon"]);
        for _ in 0..2 {
            let Applied { checked, text } = configuration.apply(&other);
            assert!(checked.ok && checked.applied && checked.restart == ["interval", "anon"]);
            assert!(text.unwrap().ends_with("lines; needs a restart: interval, anon"));
            assert_eq!(desk.expression(), "udp");
        }
        let values = configuration.effective().values;
        let interval = values.into_iter().find(|value| value.key == "interval").unwrap();
        assert_eq!(
            (interval.value.as_str(), interval.origin.as_str()),
            ("30s", "before the restart that it needs")
        );
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
