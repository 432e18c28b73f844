//! Rules of a live run that change: their files are read again as soon as one is written, and take effect.
//!
//! The kernel says when a file was closed or renamed (inotify(7)), so that no file is read that is half written. Rules that did not
//! change are not read again. A set that cannot be read changes nothing: the rules before stay in force.

use super::files::{self, KnownFiles, Wanted};
use super::of_run::rules;
use crate::cli::RuleOptions;
use crate::desk::{Change, Desk};
use crate::hub::Hub;
use crossbeam_channel::{Receiver, Sender};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_detect::{Program, ProgramRule};
use weir_engine::Rules;
use weir_output::figures::count;

/// Time after which the thread looks whether it is to end, or to read the files again although none was written.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The files of the rules of a run, watched from before the run gives up its privileges.
pub struct Watched {
    kernel: OwnedFd,
    options: RuleOptions,
}

impl Watched {
    /// Watches the rule files of options; `None` without any.
    ///
    /// # Errors
    /// A directory that cannot be watched, with the reason.
    pub fn begin(options: &RuleOptions) -> Result<Option<Self>, String> {
        if options.rules.is_empty() {
            return Ok(None);
        }
        let kernel = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|error| format!("changes of rule files cannot be seen: {error}"))?;
        let changes =
            WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        for directory in directories(options) {
            inotify::add_watch(&kernel, &directory, changes)
                .map_err(|error| format!("{}: its changes cannot be seen: {error}", directory.display()))?;
        }
        Ok(Some(Self { kernel, options: options.clone() }))
    }

    /// Follows the files until [`Following::finish`]. `known` is what was read for the rules in force.
    pub fn follow(
        self,
        desk: Arc<Desk>,
        rules: Option<Rules>,
        known: KnownFiles,
        hub: Option<Arc<Hub>>,
    ) -> Following {
        let (said, texts) = crossbeam_channel::unbounded();
        let flags = Flags::default();
        let mut follower = Follower {
            watched: self,
            desk,
            hub,
            before: rules.unwrap_or_else(|| Rules::new(Program::default())),
            known,
            said,
        };
        let thread = std::thread::spawn({
            let flags = flags.clone();
            move || follower.run(&flags)
        });
        Following { flags, texts, thread }
    }
}

/// The directories of rule files, each once.
pub fn directories(options: &RuleOptions) -> BTreeSet<PathBuf> {
    let directory = |path: &PathBuf| match path.is_dir() {
        true => path.clone(),
        false => weir_files::directory_of(path).to_owned(),
    };
    let RuleOptions { rules, threshold_config, rule_categories, rule_reputation, rule_geoip, .. } = options;
    let others = rule_categories.iter().chain(rule_reputation).chain(rule_geoip);
    rules.iter().chain(threshold_config).chain(others).map(directory).collect()
}

fn unread(error: &str) -> String {
    format!("rules are not read again, those before stay in force: {error}")
}

/// What is asked of the thread.
#[derive(Clone, Default)]
struct Flags {
    end: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
}

/// The thread that follows the files.
pub struct Following {
    flags: Flags,
    texts: Receiver<String>,
    thread: JoinHandle<()>,
}

impl Following {
    /// Reads the files again, whether or not one has changed.
    pub fn again(&self) {
        self.flags.again.store(true, Ordering::Relaxed);
    }

    /// What was done since it was called last: a line for each change.
    pub fn text(&self) -> Option<String> {
        let lines: Vec<String> = self.texts.try_iter().collect();
        (!lines.is_empty()).then(|| lines.join("\nweir: "))
    }

    /// Ends the thread.
    pub fn finish(self) {
        self.flags.end.store(true, Ordering::Relaxed);
        // A panic of the thread was reported when it happened.
        let _ = self.thread.join();
    }
}

struct Follower {
    watched: Watched,
    desk: Arc<Desk>,
    hub: Option<Arc<Hub>>,
    /// The rules in force.
    before: Rules,
    known: KnownFiles,
    said: Sender<String>,
}

impl Follower {
    fn run(&mut self, flags: &Flags) {
        // What was written since the run has read the files takes effect now. From now on only what has changed is read.
        match self.change() {
            Ok((true, text)) => self.say(text),
            Ok((false, _)) => {}
            Err(error) => self.say(unread(&error)),
        }
        while !flags.end.load(Ordering::Relaxed) {
            let mut kernel = [PollFd::new(&self.watched.kernel, PollFlags::IN)];
            // An interrupted wait is as good as one that is over.
            let _ = poll(&mut kernel, Some(&PATIENCE));
            let is_changed = self.is_changed();
            let is_asked = flags.again.swap(false, Ordering::Relaxed);
            if is_asked {
                self.known.distrust();
            }
            if is_asked || is_changed {
                let text = self.change().map_or_else(|error| unread(&error), |(_, text)| text);
                self.say(text);
            }
        }
    }

    fn say(&self, text: String) {
        if let Some(hub) = &self.hub {
            hub.note("configuration", format!("rules: {text}"));
        }
        // The run may have ended.
        let _ = self.said.send(text);
    }

    /// Whether a file was written that rules are read from.
    fn is_changed(&self) -> bool {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watched.kernel, &mut room);
        let mut is_changed = false;
        loop {
            match events.next() {
                Ok(event) => {
                    is_changed |= event.file_name().is_none_or(|name| self.is_read(&name.to_string_lossy()));
                }
                Err(Errno::INTR) => {}
                Err(_) => return is_changed,
            }
        }
    }

    /// Whether a file of this name may be one of those that are read. Rules may name others beside them.
    fn is_read(&self, name: &str) -> bool {
        let is_named = |path: &PathBuf| path.file_name().is_some_and(|of_path| *of_path == *name);
        let ends = [".rules", ".config", ".lst", ".csv", ".txt"].iter().any(|ending| name.ends_with(ending));
        ends || self.watched.options.rules.iter().any(is_named)
    }

    fn read(&mut self) -> Result<files::Read, String> {
        let wanted = Wanted::of_run(&self.watched.options, self.before.judging());
        files::read_again(&wanted, Some(self.before.program()), &mut self.known).map_err(|(_, error)| error)
    }

    /// Reads the files, and lets what they say take effect. Returns whether that is something else than before, and a line about it.
    fn change(&mut self) -> Result<(bool, String), String> {
        let read = self.read()?;
        if read.set.unreadable > 0 {
            let files = read.set.refusals.iter().filter(|refusal| refusal.sid.is_none());
            let first = files.map(|refusal| format!("{}: {}", refusal.origin.file, refusal.fault)).next();
            return Err(first.unwrap_or_default());
        }
        let difference = Difference::between(self.before.program(), &read.program);
        let is_other = !difference.is_none();
        let total = read.note().unwrap_or_else(|| read.total());
        if is_other {
            let now = rules(read.program, &self.watched.options, self.before.judging());
            self.desk.prepare(vec![Change::Rules(now.clone())])?.post();
            self.before = now;
        }
        Ok((is_other, format!("{difference}: {total}")))
    }
}

/// What distinguishes two sets of rules.
struct Difference {
    added: usize,
    changed: usize,
    removed: usize,
    /// Whether thresholds of the user have changed.
    thresholds: bool,
}

impl Difference {
    fn between(before: &Program, now: &Program) -> Self {
        let thresholds = before.thresholds != now.thresholds;
        let (old, new) = apart(&before.rules, &now.rules);
        let address = |one: &ProgramRule| Arc::as_ptr(&one.loaded.rule);
        let addresses = |rules: &[ProgramRule]| rules.iter().map(address).collect::<HashSet<_>>();
        let (known, kept) = (addresses(old), addresses(new));
        // Rules that both have are not compared.
        let key = |one: &ProgramRule| (one.rule().gid, one.rule().sid);
        let left = old.iter().filter(|one| !kept.contains(&address(one)));
        let mut left: HashMap<(u32, u32), &ProgramRule> = left.map(|one| (key(one), one)).collect();
        let (mut added, mut changed) = (0, 0);
        for one in new.iter().filter(|one| !known.contains(&address(one))) {
            match left.remove(&key(one)) {
                None => added += 1,
                Some(old) => changed += usize::from(old.rule() != one.rule()),
            }
        }
        Self { added, changed, removed: left.len(), thresholds }
    }

    fn is_none(&self) -> bool {
        self.added + self.changed + self.removed == 0 && !self.thresholds
    }
}

/// The rules of two lists between those with which both begin and with which both end.
fn apart<'r>(one: &'r [ProgramRule], other: &'r [ProgramRule]) -> (&'r [ProgramRule], &'r [ProgramRule]) {
    let are_one =
        |(one, other): &(&ProgramRule, &ProgramRule)| Arc::ptr_eq(&one.loaded.rule, &other.loaded.rule);
    let begin = one.iter().zip(other).take_while(are_one).count();
    let (one, other) = (one.get(begin..).unwrap_or_default(), other.get(begin..).unwrap_or_default());
    let end = one.iter().rev().zip(other.iter().rev()).take_while(are_one).count();
    let head = |rules: &'r [ProgramRule]| rules.get(..rules.len() - end).unwrap_or_default();
    (head(one), head(other))
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() {
            return f.write_str("nothing has changed");
        }
        let parts = [(self.added, "added"), (self.changed, "changed"), (self.removed, "removed")];
        let parts = parts.iter().filter(|(number, _)| *number > 0);
        let parts = parts.map(|(number, what)| format!("{} {what}", count(*number as u64)));
        let parts: Vec<String> =
            parts.chain(self.thresholds.then(|| "thresholds changed".to_owned())).collect();
        f.write_str(&parts.join(", "))
    }
}
