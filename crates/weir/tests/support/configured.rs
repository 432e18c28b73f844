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
        let mut command = self.net.test(&self.net.here, "speaker");
        run(command.env("WEIR_SPEAK", format!("{} {line}", self.port))).exits(0);
        self.port += 1;
        assert!(eventually(|| self.log(log).contains(line)), "{line} in {log}: {}", self.errors());
    }

    /// The text of a log.
    pub fn log(&self, name: &str) -> String {
        let (stem, extension) = name.split_once('.').unwrap();
        rows(&self.folder.path().join("logs"), &format!("{stem}."), extension)
    }

    /// Ends the run with an interrupt.
    pub fn end(self) -> (tempfile::TempDir, Ran) {
        signal(&self.child, "INT");
        (self.folder, finish(self.child).exits(130))
    }
}

/// The bytes of all files of a directory whose names begin and end with these texts: SIGHUP also rotates files.
pub fn contents(directory: &Path, begin: &str, end: &str) -> Vec<u8> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    };
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(is_one).flat_map(|path| fs::read(path).unwrap_or_default()).collect()
}

/// As [`contents`], as text; what is not UTF-8, such as half a character that is being written, is replaced.
pub fn rows(directory: &Path, begin: &str, end: &str) -> String {
    String::from_utf8_lossy(&contents(directory, begin, end)).into_owned()
}
