//! The access log: downloads of payload, applied configurations, and failed log-ins, with their users. It contains no
//! payload.
//!
//! A line is a JSON object. Lines go through a bounded queue to a separate thread, so that a blocked disk or terminal
//! delays no request. Lines that do not fit are counted.

use super::counts::Counts;
use axum::http::Uri;
use crossbeam_channel::{Receiver, Sender, bounded};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of lines in the queue.
const WAITING: usize = 1024;
/// Size in bytes at which the file is renamed to FILE.1 and a new one begins, so that both together are bounded.
const MAX_BYTES: u64 = 10 << 20;
/// Maximum wait at the end of the program for lines to be written.
const LEAVE: Duration = Duration::from_secs(2);
/// Name of the file in the folder of a store.
pub const NAME: &str = "access.log";

/// A line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Entry {
    /// Time at which the answer ended, RFC 3339 in UTC.
    pub time: String,
    /// `download`, `change` or `login`.
    pub what: &'static str,
    /// Name of the user or token. After a failed log-in, the user's name if that user is configured.
    pub name: Option<String>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// The path of the route.
    pub route: &'static str,
    /// Expression in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Start of the requested time range, as given in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End of the requested time range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The status of the answer (RFC 9110).
    pub status: u16,
    /// Bytes of the body that were passed to the connection.
    pub bytes: u64,
    /// Whether the whole body was passed.
    pub complete: bool,
}

impl Entry {
    /// An entry with the parameters of a request.
    pub fn of(what: &'static str, route: &'static str, address: Option<IpAddr>, uri: &Uri) -> Entry {
        let mut entry = Entry { what, route, address, ..Entry::default() };
        let asked = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        for (name, value) in asked.map(|query| query.0).unwrap_or_default() {
            match name.as_str() {
                "filter" => entry.filter = Some(value),
                "from" => entry.from = Some(value),
                "to" => entry.to = Some(value),
                _ => {}
            }
        }
        entry
    }
}

/// The queue to the access log.
pub struct AccessLog {
    /// The queue of the thread; `None` if nothing is recorded.
    to: Option<Sender<Entry>>,
    /// Closed when the thread has written all lines.
    done: Receiver<()>,
    counts: Arc<Counts>,
}

impl AccessLog {
    /// Starts a log in a file, if given, and on standard error, if `echo` is set.
    pub fn start(file: Option<LogFile>, echo: bool, counts: &Arc<Counts>) -> AccessLog {
        let ((to, from), (end, done)) = (bounded(WAITING), bounded(1));
        let lost = Arc::clone(counts);
        let is_recorded = file.is_some() || echo;
        if is_recorded {
            let thread = std::thread::Builder::new().name("access-log".to_owned());
            // If the thread cannot be started, each line is counted as lost.
            let _ = thread.spawn(move || {
                write(&from, file, echo, &lost);
                let _ = end.send(());
            });
        }
        AccessLog { to: is_recorded.then_some(to), done, counts: Arc::clone(counts) }
    }

    /// Queues a line if there is room.
    pub fn write(&self, entry: Entry) {
        let now = crate::hub::clock();
        let entry = Entry { time: weir_output::zone::rfc3339(now), ..entry };
        if self.to.as_ref().is_some_and(|to| to.try_send(entry).is_err()) {
            self.counts.lost_lines.one();
        }
    }
}

impl Drop for AccessLog {
    /// Waits until the queued lines are written, unless the disk or the terminal is blocked.
    fn drop(&mut self) {
        if self.to.take().is_some() {
            let _ = self.done.recv_timeout(LEAVE);
        }
    }
}

fn write(from: &Receiver<Entry>, mut file: Option<LogFile>, echo: bool, counts: &Counts) {
    let mut is_failing = false;
    for entry in from {
        let Ok(line) = serde_json::to_string(&entry) else { continue };
        if echo {
            // JSON has escaped control characters.
            let _ = writeln!(io::stderr(), "weir: access: {line}");
        }
        let Some(file) = &mut file else { continue };
        match file.write(&line) {
            Ok(()) => is_failing = false,
            Err(error) => {
                counts.lost_lines.one();
                // Reported once each time that writing begins to fail.
                if !is_failing {
                    let _ = writeln!(io::stderr(), "weir: {}: {error}", file.path.display());
                }
                is_failing = true;
            }
        }
    }
}

/// The file of an access log.
pub struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Opens the file for appending.
    ///
    /// # Errors
    /// The file cannot be opened. The message has the path.
    pub fn open(path: &Path) -> Result<LogFile, String> {
        let opened = weir_files::append(path).and_then(|file| {
            let bytes = file.metadata()?.len();
            Ok(LogFile { path: path.to_owned(), file, bytes })
        });
        opened.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes >= MAX_BYTES {
            self.rotate()?;
        }
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        std::fs::rename(&self.path, old)?;
        self.file = weir_files::append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lines_are_json_objects_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let counts = Arc::new(Counts::default());
        let log = AccessLog::start(Some(LogFile::open(&path).unwrap()), false, &counts);
        let uri: Uri = "/api/v1/packets?filter=host+192.0.2.1%0A%1b&from=1&other=x".parse().unwrap();
        let entry = Entry::of("download", "/api/v1/packets", "192.0.2.9".parse().ok(), &uri);
        log.write(Entry { name: Some("ann".to_owned()), status: 200, bytes: 5, complete: true, ..entry });
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["filter"], "host 192.0.2.1\n\u{1b}");
        assert_eq!(
            (&line["name"], &line["address"], &line["from"]),
            (&"ann".into(), &"192.0.2.9".into(), &"1".into())
        );
        assert_eq!(
            (&line["bytes"], &line["status"], &line["complete"]),
            (&5.into(), &200.into(), &true.into())
        );
        assert!(
            line["time"].as_str().is_some_and(|time| time.ends_with('Z')) && line.get("to").is_none(),
            "{line}"
        );
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(counts.metrics().contains("weir_lost_access_lines_total 0\n"));
    }

    #[test]
    fn the_file_is_bounded_and_the_previous_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        std::fs::write(&path, "old\n").unwrap();
        let mut file = LogFile::open(&path).unwrap();
        file.bytes = MAX_BYTES - 1;
        file.write("a").unwrap();
        file.write("b").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("access.log.1")).unwrap(), "old\na\n");
        assert!(LogFile::open(Path::new("/nowhere/access.log")).is_err());
    }
}
