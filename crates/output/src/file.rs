//! Files of whole lines: after a full disk or a killed process, the file on disk ends with a whole line, and every
//! line that could not be written is counted.

use crate::OutputContext;
use crate::destination::{Destination, Existing};
use crate::standard::StandardOutput;
use crate::zone::Zone;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use weir_files::Part;

/// Number of bytes that are collected before they are written.
const BLOCK: usize = 64 << 10;
/// Maximum number of bytes that wait while the disk is full; beyond it lines are lost and counted.
const MAX_WAITING: usize = 1 << 20;

/// Rotation of files, besides [`crate::Output::roll`].
#[derive(Clone, Debug, Default)]
pub struct Rolling {
    /// A new file begins with the first line after this number of bytes.
    pub bytes: Option<u64>,
    /// Finished files are compressed with zstd.
    pub zstd: bool,
}

/// Whole lines, at a time in nanoseconds since the epoch.
type Lines = Box<dyn Fn(u64) -> String + Send>;

/// The head and the foot of each file of a format; both get the time of the adjacent line.
#[derive(Default)]
pub struct Frame {
    /// Lines at the beginning.
    pub head: Option<Lines>,
    /// Lines at the end.
    pub foot: Option<Lines>,
}

impl Frame {
    /// A frame with these lines before all others.
    pub fn head(head: impl Fn(u64) -> String + Send + 'static) -> Self {
        Self { head: Some(Box::new(head)), foot: None }
    }

    /// Adds lines after all others.
    pub fn foot(self, foot: impl Fn(u64) -> String + Send + 'static) -> Self {
        Self { foot: Some(Box::new(foot)), ..self }
    }
}

/// Maximum number of files of one name that are compressed at once; then the next one waits.
const COMPRESSING: usize = 2;

/// A file to which lines are added.
pub struct LineFile {
    /// Its final path, which messages show.
    path: PathBuf,
    /// The temporary file until then, if it has another name.
    part: Option<Part>,
    /// `None` if a new file could not be opened; opening is retried.
    destination: Option<Box<dyn Destination>>,
    existing: Existing,
    rolling: Rolling,
    zone: Zone,
    frame: Frame,
    /// Whether the head is written.
    begun: bool,
    /// Whether there are lines after the head.
    has_lines: bool,
    /// The maximum time of a line.
    latest: u64,
    /// The last time stamp in the name of a finished file, and the number of its uses.
    stamp: (String, u32),
    /// The time of that stamp.
    stamped: u64,
    compressing: VecDeque<JoinHandle<io::Result<()>>>,
    /// Length of the file in bytes, all of them whole lines.
    length: u64,
    /// Whether a partial line may follow, which could not be removed yet.
    torn: bool,
    waiting: Vec<u8>,
    /// The disk's error, until writing succeeds again.
    failure: Option<io::Error>,
    /// Whether the error was reported.
    reported: bool,
    lost: u64,
}

impl LineFile {
    /// Opens the file `name` in `directory`.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or repaired; the error has its path.
    pub fn open(directory: &Path, name: &str, existing: Existing) -> io::Result<Self> {
        let path = directory.join(name);
        let opened = match existing {
            Existing::Replace => {
                remove_leftovers(&path);
                begin_part(&path).map(|(part, file)| (Some(part), file, 0))
            }
            Existing::Continue => open_repaired(&path).map(|(file, length)| (None, file, length)),
        };
        let (part, file, length) = opened.map_err(|error| at(&path, &error))?;
        let has_lines = length > 0;
        Ok(Self { part, length, existing, has_lines, ..Self::over(path, Box::new(file)) })
    }

    /// Opens the file `name` of a run's logs; `frame` is the head and foot of each file of that name.
    ///
    /// # Errors
    ///
    /// As [`LineFile::open`].
    pub fn framed(context: &OutputContext, name: &str, frame: Frame) -> io::Result<Self> {
        if context.is_stream {
            let stream = StandardOutput::start(context.existing, context.stop.clone())?;
            let (zone, latest) = (context.zone.clone(), context.start);
            return Ok(Self {
                zone,
                frame,
                latest,
                ..Self::over("standard output".into(), Box::new(stream))
            });
        }
        let file = Self::open(&context.directory, name, context.existing)?;
        let (rolling, zone) = (context.rolling.clone(), context.zone.clone());
        Ok(Self { rolling, zone, frame, latest: context.start, ..file })
    }

    /// Continues an existing file that has its head.
    pub fn go_on(&mut self) {
        self.begun = true;
    }

    /// Writes the head, unless it is written.
    pub fn begin(&mut self, time: u64) {
        if !std::mem::replace(&mut self.begun, true) {
            self.latest = if self.has_lines { self.latest.max(time) } else { time };
            if let Some(head) = &self.frame.head {
                self.waiting.extend_from_slice(head(time).as_bytes());
            }
        }
    }

    /// Notes the time up to which the file's content extends.
    pub fn reach(&mut self, time: u64) {
        self.latest = self.latest.max(time);
    }

    /// Ends the file, so that it is as complete as at the end of a run, renames it with the time, and begins another.
    /// A file that was renamed from outside, as by logrotate(8), keeps that name. A file without lines continues.
    ///
    /// # Errors
    ///
    /// The file cannot be written, renamed or begun. Then it continues, or lines wait.
    pub fn roll(&mut self, now: u64) -> io::Result<()> {
        if self.destination.as_ref().is_some_and(|destination| destination.is_stream()) {
            return self.flush();
        }
        let current = self.part.as_ref().map_or(&*self.path, Part::written).to_owned();
        let is_there = self.destination.as_ref().is_some_and(|destination| destination.is_at(&current));
        if self.destination.is_none() || is_there && !self.has_lines {
            return Ok(());
        }
        self.write_out();
        if self.failure.is_some() {
            return self.flush();
        }
        self.end_lines();
        self.write_out();
        if self.failure.is_some() {
            // The next part has its own head, in the same file.
            return self.flush();
        }
        if is_there {
            let finished = self.finished_name(now.max(self.latest));
            let renamed = match self.part.take() {
                Some(part) => part.finish_as(&finished),
                None => std::fs::rename(&current, &finished),
            };
            renamed.map_err(|error| at(&finished, &error))?;
            self.compress(finished)?;
        }
        self.destination = None;
        self.has_lines = false;
        self.open_again().map_err(|error| at(&self.path, &error))
    }

    /// Writes the foot, if there is a head.
    fn end_lines(&mut self) {
        if std::mem::take(&mut self.begun)
            && let Some(foot) = &self.frame.foot
        {
            self.waiting.extend_from_slice(foot(self.latest).as_bytes());
        }
    }

    fn open_again(&mut self) -> io::Result<()> {
        let (file, length) = match self.existing {
            Existing::Replace => {
                let (part, file) = begin_part(&self.path)?;
                self.part = Some(part);
                (file, 0)
            }
            Existing::Continue => open_repaired(&self.path)?,
        };
        (self.length, self.torn) = (length, false);
        self.destination = Some(Box::new(file));
        Ok(())
    }

    /// `conn.2026-11-22-04-00-00.log`, with a number if that name is in use: a run over files replaces the file of an
    /// earlier run.
    fn finished_name(&mut self, time: u64) -> PathBuf {
        // Rows come in order of intervals, not of times: a time that goes back would produce the name of an existing
        // file of this run.
        self.stamped = self.stamped.max(time);
        let stamp = self.zone.dashed(self.stamped);
        let ending = self.path.extension().map(|ending| format!(".{}", ending.display())).unwrap_or_default();
        let stem = self.path.with_extension("").display().to_string();
        let is_again = self.stamp.0 == stamp;
        let mut number = if is_again { self.stamp.1 + 1 } else { 0 };
        loop {
            let numbered = if number == 0 { String::new() } else { format!("-{number}") };
            let name = PathBuf::from(format!("{stem}.{stamp}{numbered}{ending}"));
            let packed = packed_name(&name);
            if self.existing == Existing::Replace || !name.exists() && !packed.exists() {
                self.stamp = (stamp, number);
                return name;
            }
            number += 1;
        }
    }

    /// Compresses a finished file, if configured, while the next one is written.
    fn compress(&mut self, finished: PathBuf) -> io::Result<()> {
        if !self.rolling.zstd {
            return Ok(());
        }
        let mut result = Ok(());
        if self.compressing.len() >= COMPRESSING
            && let Some(oldest) = self.compressing.pop_front()
        {
            result = oldest.join().unwrap_or(Ok(()));
        }
        self.compressing.push_back(std::thread::spawn(move || pack(&finished)));
        result
    }

    fn over(path: PathBuf, destination: Box<dyn Destination>) -> Self {
        Self {
            path,
            part: None,
            destination: Some(destination),
            existing: Existing::Continue,
            rolling: Rolling::default(),
            zone: Zone::default(),
            frame: Frame::default(),
            begun: false,
            has_lines: false,
            latest: 0,
            stamp: (String::new(), 0),
            stamped: 0,
            compressing: VecDeque::new(),
            length: 0,
            torn: false,
            waiting: Vec::with_capacity(BLOCK * 2),
            failure: None,
            reported: false,
            lost: 0,
        }
    }

    /// Whether the file has no lines.
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.waiting.is_empty()
    }

    /// The first line of the file when it was opened, at most 64 KiB of it; empty if it has none.
    pub fn first_line(&self) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        let path = self.part.as_ref().map_or(&*self.path, Part::written);
        File::open(path)?.take(BLOCK as u64).read_to_end(&mut start)?;
        Ok(start.split(|&byte| byte == b'\n').next().unwrap_or_default().to_vec())
    }

    /// Adds a line with its time in nanoseconds since the epoch. `write` appends the line, without a line break. A
    /// full disk is reported by [`Self::flush`]: lines wait for space while there is room for them, then they are lost
    /// and counted.
    pub fn line(&mut self, time: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let so_far = self.length + self.waiting.len() as u64;
        if self.rolling.bytes.is_some_and(|max| self.has_lines && so_far >= max) {
            // Errors show when the lines are written.
            if let Err(error) = self.roll(self.latest) {
                self.failure = Some(error);
            }
        }
        if self.waiting.len() >= BLOCK && self.failure.is_none() {
            self.write_out();
        }
        if self.waiting.len() >= MAX_WAITING {
            self.lost += 1;
            return;
        }
        self.begin(time);
        self.reach(time);
        self.has_lines = true;
        write(&mut self.waiting);
        self.waiting.push(b'\n');
    }

    /// Writes the waiting bytes.
    ///
    /// # Errors
    ///
    /// The bytes cannot be written; reported once each time that writing begins to fail.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_out();
        match &self.failure {
            Some(error) if !self.reported => {
                self.reported = true;
                let text = format!("{error}; lines wait for space, {} lost so far", self.lost);
                Err(at(&self.path, &io::Error::new(error.kind(), text)))
            }
            _ => Ok(()),
        }
    }

    /// Writes the waiting lines and renames the file to its final name. Lines that cannot be written now are lost.
    ///
    /// # Errors
    ///
    /// Lines were lost, now or before, with their number; or the file cannot be renamed.
    pub fn finish(&mut self) -> io::Result<()> {
        self.end_lines();
        self.write_out();
        self.lost += self.waiting.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.waiting.clear();
        if let Some(destination) = &mut self.destination {
            destination.end().map_err(|error| at(&self.path, &error))?;
        }
        if let Some(part) = self.part.take() {
            part.finish_as(&self.path).map_err(|error| at(&self.path, &error))?;
            self.compress(self.path.clone())?;
        }
        for packed in self.compressing.drain(..) {
            packed.join().unwrap_or(Ok(()))?;
        }
        match std::mem::take(&mut self.lost) {
            0 => Ok(()),
            lost => {
                let (kind, why) = match &self.failure {
                    Some(error) => (error.kind(), format!(": {error}")),
                    None => (io::ErrorKind::StorageFull, " while there was no room for them".to_owned()),
                };
                Err(at(&self.path, &io::Error::new(kind, format!("{lost} lines were lost{why}"))))
            }
        }
    }

    fn write_out(&mut self) {
        match self.try_write_out() {
            Ok(()) => {
                self.failure = None;
                self.reported = false;
            }
            Err(error) => self.failure = Some(error),
        }
    }

    fn try_write_out(&mut self) -> io::Result<()> {
        if self.destination.is_none() {
            self.open_again()?;
        }
        let Some(destination) = &mut self.destination else { return Ok(()) };
        if self.torn {
            destination.cut(self.length)?;
            self.torn = false;
        }
        let mut done = 0;
        while let Some(rest) = self.waiting.get(done..).filter(|rest| !rest.is_empty()) {
            let outcome = match destination.put(rest) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                outcome => outcome,
            };
            match outcome {
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.keep_whole_lines(done);
                    return Err(error);
                }
            }
        }
        self.length += done as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Handles a partial write: the first `done` waiting bytes are in the file, and only whole lines among them stay
    /// there.
    fn keep_whole_lines(&mut self, done: usize) {
        let written = self.waiting.get(..done).unwrap_or_default();
        let whole = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.length += whole as u64;
        let destination = self.destination.as_mut().filter(|_| whole < done);
        self.torn = destination.is_some_and(|destination| destination.cut(self.length).is_err());
        self.waiting.drain(..whole);
    }
}

/// Opens the file for appending, truncated after its last whole line. Returns it with its length.
fn open_repaired(path: &Path) -> io::Result<(File, u64)> {
    let mut file = weir_files::append(path)?;
    let length = file.metadata()?.len();
    let whole = whole_lines(&mut file, length)?;
    if whole < length {
        file.set_len(whole)?;
    }
    Ok((file, whole))
}

/// Creates a new file that will become `path`, and opens it for appending: writes go directly to the end, also after
/// the file was truncated.
fn begin_part(path: &Path) -> io::Result<(Part, File)> {
    let part = Part::create(path)?;
    let file = weir_files::append(part.written())?;
    Ok((part, file))
}

/// Removes the files of runs that were killed: the log is written anew.
fn remove_leftovers(path: &Path) {
    for part in weir_files::leftovers(path).unwrap_or_default() {
        // The file only takes space.
        let _ = std::fs::remove_file(part);
    }
}

/// The length of the file up to its last line break, searched from the end.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        file.seek(SeekFrom::Start(start))?;
        let part = block.get_mut(..(end - start) as usize).unwrap_or_default();
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The name of a compressed file.
fn packed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".zst");
    PathBuf::from(name)
}

/// Compresses a file with zstd; the compressed file replaces it when it is complete.
fn pack(path: &Path) -> io::Result<()> {
    let packed = packed_name(path);
    let named = |error: io::Error| at(&packed, &error);
    let mut part = Part::create(&packed).map_err(named)?;
    let written = File::open(path)
        .and_then(|from| zstd::stream::copy_encode(from, part.file(), zstd::DEFAULT_COMPRESSION_LEVEL))
        // The plain file is removed: the compressed one must be on the disk before.
        .and_then(|()| part.file().sync_all());
    match written {
        Ok(()) => part.finish().and_then(|()| std::fs::remove_file(path)).map_err(named),
        Err(error) => {
            // The partial compressed file is removed; its source stays.
            part.discard();
            Err(named(error))
        }
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A disk with limited room.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn new(room: usize) -> Self {
            Self(Arc::new(Mutex::new((Vec::new(), room))))
        }

        fn grow(&self, room: usize) {
            self.0.lock().unwrap().1 = room;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
        }
    }

    impl Destination for Disk {
        fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let n = bytes.len().min(disk.1 - disk.0.len()).min(1000);
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.0.lock().unwrap().0.truncate(length as usize);
            Ok(())
        }

        fn is_at(&self, _: &Path) -> bool {
            true
        }
    }

    fn numbered(file: &mut LineFile, from: usize, to: usize) {
        for n in from..to {
            file.line(n as u64, |line| line.extend_from_slice(format!("line {n}").as_bytes()));
        }
    }

    fn expected(to: usize) -> String {
        (0..to).map(|n| format!("line {n}\n")).collect()
    }

    /// Tests each byte at which the disk may become full: whole lines, an error, and all lines once there is room
    /// again.
    #[test]
    fn a_full_disk_cuts_no_line_and_writing_resumes() {
        for room in 0..200 {
            let disk = Disk::new(room);
            let mut file = LineFile::over("logs/x.log".into(), Box::new(disk.clone()));
            numbered(&mut file, 0, 30);
            let error = file.flush().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert!(error.to_string().starts_with("logs/x.log: "), "{error}");
            file.flush().expect("it is reported once");
            let text = disk.text();
            assert!(text.is_empty() || text.ends_with('\n'), "{room}: {text:?}");
            assert!(expected(30).starts_with(&text));
            disk.grow(usize::MAX);
            numbered(&mut file, 30, 40);
            file.finish().unwrap();
            assert!(disk.text() == expected(40), "room for {room}");
        }
    }

    #[test]
    fn lines_beyond_the_buffer_are_counted() {
        let disk = Disk::new(100);
        let mut file = LineFile::over("x.log".into(), Box::new(disk.clone()));
        let all = 400_000;
        numbered(&mut file, 0, all);
        assert!(file.waiting.len() < MAX_WAITING + 64);
        let reported = file.flush().unwrap_err().to_string();
        let error = file.finish().unwrap_err().to_string();
        let written = disk.text().lines().count();
        assert!(error.contains(&format!("{} lines were lost", all - written)), "{reported} / {error}");
        assert!(disk.text().ends_with('\n'));
    }

    #[test]
    fn a_truncated_file_is_repaired_wherever_it_was_cut() {
        let directory = tempfile::tempdir().unwrap();
        let whole = expected(20);
        for cut in 0..=whole.len() {
            let path = directory.path().join("x.log");
            std::fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            let mut file = LineFile::open(directory.path(), "x.log", Existing::Continue).unwrap();
            let kept = whole[..cut].matches('\n').count();
            assert_eq!(file.is_empty(), kept == 0);
            numbered(&mut file, kept, 20);
            file.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_last_line_longer_than_a_block_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        std::fs::write(&path, format!("first\n{}", "x".repeat(3 * BLOCK + 1))).unwrap();
        LineFile::open(directory.path(), "x.log", Existing::Continue).unwrap().finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n");
    }

    #[test]
    fn a_replaced_file_gets_its_name_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        std::fs::write(&path, "old\n").unwrap();
        let mut file = LineFile::open(directory.path(), "x.log", Existing::Replace).unwrap();
        numbered(&mut file, 0, 3);
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\n");
        file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected(3));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    fn framed(directory: &Path, existing: Existing, rolling: Rolling) -> LineFile {
        let context =
            OutputContext { directory: directory.to_owned(), existing, rolling, ..OutputContext::default() };
        let frame = Frame::head(|time| format!("begin {time}\n")).foot(|time| format!("end {time}\n"));
        LineFile::framed(&context, "x.log", frame).unwrap()
    }

    #[test]
    fn older_rows_take_no_file_name_of_the_current_run() {
        let directory = tempfile::tempdir().unwrap();
        let rolling = Rolling { bytes: Some(1), zstd: false };
        let mut file = framed(directory.path(), Existing::Replace, rolling);
        let times = [5, 7, 5, 7, 6, 5, 9].map(|second| second * 1_000_000_000);
        for time in times {
            file.line(time, |line| line.extend_from_slice(b"row"));
        }
        file.finish().unwrap();
        let files = content(directory.path());
        assert_eq!(files.len(), times.len(), "{files:?}");
        assert!(files.iter().all(|(_, text)| text.matches("row\n").count() == 1));
    }

    fn content(directory: &Path) -> Vec<(String, String)> {
        let files = std::fs::read_dir(directory).unwrap().flatten();
        let mut files: Vec<_> = files
            .map(|file| {
                (file.file_name().into_string().unwrap(), std::fs::read_to_string(file.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_file_renamed_from_outside_keeps_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("x.log"), directory.path().join("x.log.1"));
        let mut file = framed(directory.path(), Existing::Continue, Rolling::default());
        numbered(&mut file, 0, 2);
        file.flush().unwrap();
        std::fs::rename(&path, &moved).unwrap();
        // Lines before the signal are in the renamed file.
        numbered(&mut file, 2, 3);
        file.roll(0).unwrap();
        numbered(&mut file, 3, 4);
        // Without a rename from outside it gets our name, and a number within one second.
        file.roll(0).unwrap();
        file.roll(0).unwrap();
        numbered(&mut file, 4, 5);
        file.roll(0).unwrap();
        numbered(&mut file, 5, 6);
        file.finish().unwrap();
        let expected = [
            ("x.1970-01-01-00-00-00-1.log", "begin 4\nline 4\nend 4\n"),
            ("x.1970-01-01-00-00-00.log", "begin 3\nline 3\nend 3\n"),
            ("x.log", "begin 5\nline 5\nend 5\n"),
            ("x.log.1", "begin 0\nline 0\nline 1\nline 2\nend 2\n"),
        ];
        assert_eq!(
            content(directory.path()),
            expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
        );
        // The next run uses no name that exists.
        let mut file = framed(directory.path(), Existing::Continue, Rolling::default());
        numbered(&mut file, 6, 7);
        file.roll(0).unwrap();
        file.finish().unwrap();
        assert!(directory.path().join("x.1970-01-01-00-00-00-2.log").exists());
    }

    #[test]
    fn finished_files_are_compressed_and_complete() {
        let directory = tempfile::tempdir().unwrap();
        let rolling = Rolling { bytes: Some(100), zstd: true };
        let mut file = framed(directory.path(), Existing::Replace, rolling);
        numbered(&mut file, 0, 100);
        file.finish().unwrap();
        let mut lines = 0;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
            names.push(entry.file_name().into_string().unwrap());
            let text = zstd::decode_all(File::open(entry.path()).unwrap()).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.starts_with("begin ") && text.lines().last().unwrap().starts_with("end "), "{text}");
            assert!(text.len() < 130, "{text}");
            lines += text.lines().filter(|line| line.starts_with("line ")).count();
        }
        assert_eq!(lines, 100);
        assert!(
            names.iter().all(|name| name.ends_with(".log.zst")) && names.contains(&"x.log.zst".to_owned())
        );
    }

    #[test]
    fn a_removed_directory_costs_no_line_once_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("logs");
        std::fs::create_dir(&directory).unwrap();
        let mut file = framed(&directory, Existing::Continue, Rolling::default());
        numbered(&mut file, 0, 2);
        file.flush().unwrap();
        std::fs::rename(&directory, folder.path().join("away")).unwrap();
        assert!(file.roll(0).is_err());
        numbered(&mut file, 2, 4);
        std::fs::create_dir(&directory).unwrap();
        file.finish().unwrap();
        assert_eq!(
            content(&folder.path().join("away")),
            [("x.log".into(), "begin 0\nline 0\nline 1\nend 1\n".into())]
        );
        assert_eq!(content(&directory), [("x.log".into(), "begin 2\nline 2\nline 3\nend 3\n".into())]);
    }

    #[test]
    fn an_absent_directory_is_named_in_the_error() {
        let error = LineFile::open(Path::new("/nowhere"), "x.log", Existing::Replace).err().unwrap();
        assert!(error.to_string().starts_with("/nowhere/x.log: "), "{error}");
    }

    /// On a file system that is full, if one can be mounted.
    #[test]
    fn a_full_file_system_loses_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            std::process::Command::new(program).args(arguments).arg(directory.path()).output()
        };
        let mounted = run("mount", &["-t", "tmpfs", "-o", "size=16k", "weir-test"]);
        if !mounted.is_ok_and(|output| output.status.success()) {
            println!("skipped: no file system can be mounted here");
            return;
        }
        let ballast = directory.path().join("ballast");
        std::fs::write(&ballast, vec![0; 8192]).unwrap();
        let mut file = LineFile::open(directory.path(), "x.log", Existing::Replace).unwrap();
        numbered(&mut file, 0, 1200);
        let full = file.flush();
        let text = std::fs::read_to_string(file.part.as_ref().unwrap().written()).unwrap();
        std::fs::remove_file(&ballast).unwrap();
        numbered(&mut file, 1200, 1250);
        let end = file.finish();
        let whole = std::fs::read_to_string(directory.path().join("x.log")).unwrap();
        drop(file);
        run("umount", &[]).unwrap();
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(text.ends_with('\n') && text.len() > 1000);
        assert!(expected(1200).starts_with(&text));
        end.unwrap();
        assert!(whole == expected(1250), "lines are missing or cut");
    }
}
