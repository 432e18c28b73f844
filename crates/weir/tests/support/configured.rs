//! A live run whose configuration a test rewrites.

use super::net::Net;
use super::*;
use std::fs::{self, File};

/// A live run with a configuration, whose file a test rewrites.
pub struct Configured {
    pub net: Net,
    pub folder: tempfile::TempDir,
    child: Child,
    /// Port of the next flow.
    port: u16,
}

impl Configured {
    /// Starts a run with one line a second, whose logs are in the directory `logs`.
    pub fn start(text: &str, arguments: &[&str]) -> Option<Self> {
        Self::begin(text, &[&["-j"], arguments].concat())
    }

    /// Starts a run whose logs are in the directory `logs`.
    pub fn begin(text: &str, arguments: &[&str]) -> Option<Self> {
        let net = Net::new()?;
        let folder = tempfile::tempdir().unwrap();
        let file = put(folder.path(), "weir.toml", b"");
        let errors = File::create(folder.path().join("errors")).unwrap();
        let fixed = ["-i", "far", "-c", super::text(&file)];
        fs::write(&file, Self::with_folder(folder.path(), text)).unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        let mut command = net.weir(&fixed.into_iter().chain(arguments.iter().copied()).collect::<Vec<_>>());
        let child = net.listening(command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap());
        Some(Self { net, folder, child, port: 5000 })
    }

    fn with_folder(folder: &Path, text: &str) -> String {
        text.replace("LOGS", super::text(&folder.join("logs")))
    }

    /// What the run printed about itself.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).unwrap()
    }

    /// Replaces the file, sends SIGHUP, and waits until the run prints these texts about it.
    #[track_caller]
    pub fn apply(&self, text: &str, answers: &[&str]) {
        let new = put(self.folder.path(), "new.toml", Self::with_folder(self.folder.path(), text).as_bytes());
        fs::rename(new, self.folder.path().join("weir.toml")).unwrap();
        let before = self.errors().len();
        signal(&self.child, "HUP");
        let is_answered = || answers.iter().all(|answer| self.errors()[before..].contains(answer));
        assert!(eventually(is_answered), "{text}: no {answers:?}: {}", self.errors());
    }

    /// Sends a line of syslog in a new flow, by the test `speaker` of the program, and waits until a log has it.
    pub fn speak(&mut self, line: &str, log: &str) {
        let mut command = self.net.inside(&self.net.here, super::text(&std::env::current_exe().unwrap()));
        command.args(["--ignored", "--exact", "speaker", "--nocapture"]);
        run(command.env("WEIR_SPEAK", format!("{} {line}", self.port))).exits(0);
        self.port += 1;
        assert!(eventually(|| self.log(log).contains(line)), "{line} in {log}: {}", self.errors());
    }

    /// The files of a log: SIGHUP also rotates them.
    pub fn log(&self, name: &str) -> String {
        let (stem, extension) = name.split_once('.').unwrap();
        let entries = fs::read_dir(self.folder.path().join("logs")).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        let is_of_log = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(&format!("{stem}.")) && name.ends_with(extension)
        };
        paths.filter(is_of_log).map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }

    /// Ends the run with an interrupt.
    pub fn end(self) -> (tempfile::TempDir, Ran) {
        signal(&self.child, "INT");
        (self.folder, finish(self.child).exits(130))
    }
}
