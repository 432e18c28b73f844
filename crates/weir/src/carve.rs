//! Writes files from streams to disk, into the directories of functions.
//!
//! The worker that parses a file decides at once, without the disk, which part is kept and under which name; a thread
//! writes. No part of a name comes from the traffic. A complete file is named by its SHA-256, others by their
//! identifier in the records, with an extension for the type that its content has.

use crate::delivered::Delivered;
use crate::failures::{self, Failures, FileTrouble};
use crate::turns::Turns;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use weir_api::{FunctionCall, SessionCount};
use weir_engine::PacketOrder;
use weir_files::Part;
use weir_proto::{Record, Value, file_id, file_name};

/// Limits of extracted files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Maximum bytes of a file; of a longer one the beginning is kept.
    pub each: u64,
    /// Maximum number of files.
    pub files: u64,
    /// Maximum bytes of all files.
    pub total: u64,
}

impl Limits {
    /// The call of a function that keeps files in a directory within these limits.
    pub fn call(&self, function: &str, to: &str) -> FunctionCall {
        let call = FunctionCall::new(function).with("to", to);
        call.with("each", self.each).with("files", self.files).with("total", self.total)
    }
}

impl Default for Limits {
    /// Those of --files-each, --files-count and --files-total.
    fn default() -> Self {
        Self { each: 64 << 20, files: 100_000, total: 4 << 30 }
    }
}

/// Maximum number of pieces in the queue to the thread: about ten megabytes.
const QUEUE: usize = 256;
/// Maximum number of open files. Others are reopened when more of them arrives.
const OPEN: usize = 64;

/// Maximum bytes of a file that the thread holds before it writes them: decoders give some dozens of bytes at once. A file that ends
/// within them is often equal to one that is there under the final name, which then costs a look at that name, and no file.
const SMALL: usize = 16 << 10;
/// Maximum bytes of all files that it holds.
const HELD: usize = 4 << 20;

/// Messages to the thread.
enum Order {
    /// The bytes of a file at an offset.
    Write { file: u64, offset: u64, bytes: Vec<u8> },
    /// End of the file, and its final name.
    Close { file: u64, name: String },
    /// End of a file that is not kept.
    Discard { file: u64 },
}

/// The consumption of all workers together.
#[derive(Debug, Default)]
struct Taken {
    files: AtomicU64,
    bytes: AtomicU64,
}

/// Takes up to `wanted` of what is left of `max`. Returns the amount taken.
fn take(taken: &AtomicU64, wanted: u64, max: u64) -> u64 {
    let mut given = 0;
    let _ = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
        given = wanted.min(max.saturating_sub(taken));
        Some(taken + given)
    });
    given
}

/// Up to half of a limit, workers need not take in order if the other half is more than they can take while one of them is
/// ahead of another by the units in work.
const AMPLE_FILES: u64 = 50_000;
const AMPLE_BYTES: u64 = 1 << 30;

/// Number of files that existed already, and the first error.
pub type Carved = (u64, Option<io::Error>);

/// The thread that writes files.
pub struct Carving {
    to: Sender<Order>,
    taken: Arc<Taken>,
    limits: Limits,
    /// What is counted of the directory.
    delivered: Arc<Delivered>,
    /// Whether it keeps all files. If not, the record of a file decides.
    is_whole: bool,
    thread: JoinHandle<Carved>,
}

impl Carving {
    /// Starts to write into a directory, which is created now if all files are kept (`is_whole`), and else with the first file.
    /// What becomes of files is counted in `delivered`.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn start(
        directory: &Path,
        limits: Limits,
        is_whole: bool,
        failures: Failures,
        delivered: Arc<Delivered>,
    ) -> io::Result<Self> {
        if is_whole {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
            weir_files::make_folders(directory).map_err(named)?;
        }
        let (to, from) = crossbeam_channel::bounded(QUEUE);
        let files = CarvedFiles {
            directory: directory.to_owned(),
            is_made: is_whole,
            waiting: HashMap::new(),
            held: 0,
            open: BTreeMap::new(),
            known: HashMap::new(),
            failed: None,
            failures,
        };
        let thread = std::thread::spawn(move || files.work(&from));
        Ok(Self { to, taken: Arc::default(), limits, delivered, is_whole, thread })
    }

    /// The handle of a worker of a live run, which sheds what the disk is too slow for.
    pub fn live_carver(&self) -> Carver {
        self.carver(None)
    }

    /// The handle of a worker of a run over files, whose packets have that order. It waits for the disk, and the limits allow
    /// what they would allow a single worker.
    pub fn file_carver(&self, turns: &Arc<Turns>) -> Carver {
        self.carver(Some(Arc::clone(turns)))
    }

    fn carver(&self, turns: Option<Arc<Turns>>) -> Carver {
        Carver {
            to: self.to.clone(),
            taken: Arc::clone(&self.taken),
            limits: self.limits,
            turns,
            worker: 0,
            reached: 0,
            files: HashMap::new(),
            count: SessionCount::default(),
            delivered: Arc::clone(&self.delivered),
            is_whole: self.is_whole,
        }
    }

    /// Whether it keeps all files.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Ends the extraction. The thread ends after the last piece that a worker sends, with the number of files that existed
    /// already, and the first error.
    pub fn end(self) -> JoinHandle<Carved> {
        self.thread
    }
}

/// Carves the files of one worker's flows.
pub struct Carver {
    to: Sender<Order>,
    taken: Arc<Taken>,
    limits: Limits,
    /// The order of workers in a run over files.
    turns: Option<Arc<Turns>>,
    /// Index of the worker, and number of the next packet of the run that it reaches.
    worker: usize,
    reached: u32,
    /// Files that have not ended.
    files: HashMap<u64, Kept>,
    count: SessionCount,
    delivered: Arc<Delivered>,
    /// Whether all files are kept. If not, the record of a file decides, and the file counts with it.
    is_whole: bool,
}

/// The kept part of a file.
#[derive(Default)]
struct Kept {
    /// Bytes kept, without gaps.
    bytes: u64,
    /// Whether some bytes were not kept.
    cut: bool,
    /// Whether nothing can be kept, because a limit is reached.
    refused: bool,
    /// Whether that limit is the one of its flow.
    crowded: bool,
}

impl Clone for Carver {
    /// A handle for another worker.
    fn clone(&self) -> Self {
        Self {
            to: self.to.clone(),
            taken: Arc::clone(&self.taken),
            limits: self.limits,
            turns: self.turns.clone(),
            worker: self.worker,
            reached: self.reached,
            files: HashMap::new(),
            count: SessionCount::default(),
            delivered: Arc::clone(&self.delivered),
            is_whole: self.is_whole,
        }
    }
}

impl Carver {
    /// Sets the worker of this handle.
    pub fn set_worker(&mut self, worker: usize) {
        self.worker = worker;
    }

    /// Whether both write into the same folder with the same limits.
    pub fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.taken, &other.taken)
    }

    /// Whether all files are kept.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The files that have begun and not ended.
    pub fn begun(&self) -> impl Iterator<Item = u64> {
        self.files.keys().copied()
    }

    /// Keeps nothing of a file whose beginning it has not seen.
    pub fn refuse(&mut self, file: u64) {
        self.files.insert(file, Kept { refused: true, ..Kept::default() });
    }

    /// Keeps nothing of a file that begins, because its flow has too many.
    pub fn withhold(&mut self, file: u64) {
        self.count.files += 1;
        self.files.insert(file, Kept { refused: true, crowded: true, ..Kept::default() });
    }

    /// Ends while the run continues. Files that have not ended are not kept: they are counted where nothing `follows` that counts
    /// them when they end. Returns the counts since the last call of [`Carver::take_count`].
    pub fn end(self, follows: bool) -> SessionCount {
        let unended = if follows { 0 } else { self.files.len() as u64 };
        SessionCount { files_skipped: self.count.files_skipped + unended, ..self.count }
    }

    /// The worker has taken its packets before the one of that number.
    pub fn reach(&mut self, packet: u32) {
        self.reached = packet;
    }

    /// Takes up to `wanted` of what is left of a limit at a packet. Returns the amount taken.
    fn take(&self, taken: &AtomicU64, wanted: u64, max: u64, ample: u64, packet: u32) -> u64 {
        let so_far = taken.load(Ordering::Relaxed);
        // Once the limit is reached, nothing changes any more.
        if let Some(turns) = &self.turns
            && so_far < max
            && (max < ample || so_far + wanted > max / 2)
        {
            turns.wait(self.worker, if packet > 0 { packet } else { self.reached });
        }
        take(taken, wanted, max)
    }

    /// Takes bytes of a file at an offset, which a packet completed; 0 for the end of a flow. Returns whether all of the file
    /// has been kept so far.
    pub fn content(&mut self, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        let Limits { each, files, total } = self.limits;
        if !self.files.contains_key(&file) {
            self.count.files += 1;
            // Where the record decides, a file counts with its record.
            let refused = self.is_whole && self.take(&self.taken.files, 1, files, AMPLE_FILES, packet) == 0;
            self.files.insert(file, Kept { refused, ..Kept::default() });
        }
        let wanted = match self.files.get(&file) {
            // Nothing is kept after a part that was not kept, so that the kept bytes are a prefix of the file.
            None | Some(Kept { refused: true, .. } | Kept { cut: true, .. }) => 0,
            Some(_) => each.saturating_sub(offset).min(bytes.len() as u64),
        };
        let room = match wanted {
            0 => 0,
            _ => self.take(&self.taken.bytes, wanted, total, AMPLE_BYTES, packet),
        };
        let Some(kept) = self.files.get_mut(&file) else { return false };
        self.count.file_bytes += bytes.len() as u64;
        let now = bytes.get(..room as usize).unwrap_or_default();
        kept.cut |= now.len() < bytes.len();
        let mut written = now.len() as u64;
        if !now.is_empty() {
            let order = Order::Write { file, offset, bytes: now.to_vec() };
            if self.turns.is_some() {
                let _ = self.to.send(order);
            } else if let Err(TrySendError::Full(_)) = self.to.try_send(order) {
                self.count.file_bytes_shed += written;
                kept.cut = true;
                written = 0;
            }
        }
        kept.bytes += written;
        self.count.file_bytes_kept += written;
        self.count.file_bytes_cut += bytes.len() as u64 - now.len() as u64;
        !kept.cut
    }

    /// Ends a file, and sets in its record the kept size and the name.
    pub fn close(&mut self, record: &mut Record<'_>) {
        let Value::Text(name) = record.get("file") else { return };
        let id = file_id(name);
        let Some((id, kept)) = id.and_then(|id| Some((id, self.files.remove(&id)?))) else {
            // The file is empty.
            return record.set("stored", Value::Bool(false));
        };
        self.delivered.offer(1);
        let (files, packet) = (self.limits.files, record.packet);
        let is_refused = kept.refused
            || kept.bytes == 0
            || !self.is_whole && self.take(&self.taken.files, 1, files, AMPLE_FILES, packet) == 0;
        if is_refused {
            self.delivered.limit(1);
            if !self.is_whole {
                return self.drop_kept(id, &kept);
            }
            self.count.files_skipped += u64::from(!kept.crowded);
            self.count.files_crowded += u64::from(kept.crowded);
            record.set("stored", Value::Bool(false));
            return;
        }
        self.delivered.write(1, kept.bytes);
        self.count.files_kept += 1;
        self.count.files_cut += u64::from(kept.cut);
        let ending = match record.get("mime_type") {
            Value::Text(kind) => ending(kind),
            _ => "bin",
        };
        let base = match record.get("sha256") {
            Value::Text(sum) if !kept.cut => String::from_utf8_lossy(sum).into_owned(),
            _ => file_name(id),
        };
        let name = format!("{base}.{ending}");
        record.set("extracted", Value::from(name.clone()));
        record.set("extracted_cutoff", Value::Bool(kept.cut));
        record.set("extracted_size", if kept.cut { Value::Uint(kept.bytes) } else { Value::None });
        // This message waits for room in the queue: without it the file would not get its name.
        let _ = self.to.send(Order::Close { file: id, name });
    }

    /// Ends a file that is not kept. What it took of the limits is free again.
    pub fn discard(&mut self, record: &Record<'_>) {
        let Value::Text(name) = record.get("file") else { return };
        let id = file_id(name);
        if let Some((file, kept)) = id.and_then(|id| Some((id, self.files.remove(&id)?))) {
            self.drop_kept(file, &kept);
        }
    }

    fn drop_kept(&self, file: u64, kept: &Kept) {
        self.taken.bytes.fetch_sub(kept.bytes, Ordering::Relaxed);
        // As for a file that is kept.
        let _ = self.to.send(Order::Discard { file });
    }

    /// Counts since the last call.
    pub fn take_count(&mut self) -> SessionCount {
        std::mem::take(&mut self.count)
    }
}

/// The extension of files of that type: a fixed word, regardless of the name in the traffic.
fn ending(kind: &[u8]) -> &'static str {
    let known =
        std::str::from_utf8(kind).ok().and_then(|kind| ENDINGS.iter().find(|(name, _)| *name == kind));
    match known {
        Some((_, ending)) => ending,
        None if kind.starts_with(b"text/") => "txt",
        None => "bin",
    }
}

/// Types by content, with their extensions.
static ENDINGS: &[(&str, &str)] = &[
    ("application/java-archive", "jar"),
    ("application/javascript", "js"),
    ("application/msword", "doc"),
    ("application/pdf", "pdf"),
    ("application/postscript", "ps"),
    ("application/vnd.ms-cab-compressed", "cab"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.tcpdump.pcap", "pcap"),
    ("application/wasm", "wasm"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-bzip2", "bz2"),
    ("application/x-debian-package", "deb"),
    ("application/x-dosexec", "exe"),
    ("application/x-executable", "elf"),
    ("application/x-gzip", "gz"),
    ("application/x-pem", "pem"),
    ("application/x-rar", "rar"),
    ("application/x-rpm", "rpm"),
    ("application/x-sharedlib", "so"),
    ("application/x-shockwave-flash", "swf"),
    ("application/x-tar", "tar"),
    ("application/x-xz", "xz"),
    ("application/xml", "xml"),
    ("application/zip", "zip"),
    ("audio/mpeg", "mp3"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/tiff", "tif"),
    ("image/webp", "webp"),
    ("image/x-icon", "ico"),
    ("text/html", "html"),
    ("text/json", "json"),
    ("text/rtf", "rtf"),
    ("video/mp4", "mp4"),
    ("video/quicktime", "mov"),
];

/// The last bytes of a file.
#[derive(Default)]
struct Waiting {
    /// Their place in the file.
    offset: u64,
    bytes: Vec<u8>,
}

impl Waiting {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// The state of the writing thread.
struct CarvedFiles {
    directory: PathBuf,
    /// Whether the directory is there.
    is_made: bool,
    /// The last bytes of files that have not ended, which are not on the disk.
    waiting: HashMap<u64, Waiting>,
    /// Number of these bytes.
    held: usize,
    /// Open files.
    open: BTreeMap<u64, File>,
    /// Temporary names of the files that have not ended; `None` after a failed write.
    known: HashMap<u64, Option<PathBuf>>,
    failed: Option<io::Error>,
    failures: Failures,
}

impl CarvedFiles {
    fn work(mut self, from: &Receiver<Order>) -> Carved {
        let mut again = 0;
        for order in from {
            match order {
                Order::Write { file, offset, bytes } => self.take(file, offset, &bytes),
                Order::Discard { file } => {
                    self.release(file);
                    self.open.remove(&file);
                    if let Some(path) = self.known.remove(&file).flatten() {
                        let _ = std::fs::remove_file(path);
                    }
                }
                Order::Close { file, name } => again += u64::from(self.close(file, &name)),
            }
        }
        // Files that did not end before the extraction ended.
        for path in self.known.into_values().flatten() {
            let _ = std::fs::remove_file(path);
        }
        (again, self.failed)
    }

    /// Takes a part of a file. Consecutive parts are held and written together.
    fn take(&mut self, file: u64, offset: u64, bytes: &[u8]) {
        let before = self.waiting.get(&file);
        let (end, so_far) = before.map_or((offset, 0), |before| (before.end(), before.bytes.len()));
        let has_room = so_far + bytes.len() <= SMALL && self.held + bytes.len() <= HELD;
        if has_room && offset == end {
            self.held += bytes.len();
            let waiting = self.waiting.entry(file).or_insert(Waiting { offset, bytes: Vec::new() });
            waiting.bytes.extend_from_slice(bytes);
            return;
        }
        match self.release(file) {
            Some(before) if offset == end => self.write(file, before.offset, &before.bytes, bytes),
            Some(before) => {
                self.write(file, before.offset, &before.bytes, &[]);
                self.write(file, offset, bytes, &[]);
            }
            None => self.write(file, offset, bytes, &[]),
        }
    }

    /// The bytes of a file that were held, which are held no more.
    fn release(&mut self, file: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&file)?;
        self.held -= waiting.bytes.len();
        Some(waiting)
    }

    /// Gives a file its final name. Returns whether the directory had a file of that name.
    fn close(&mut self, file: u64, name: &str) -> bool {
        let to = self.directory.join(name);
        let before = length(&to);
        // The name is the hash of the content: a file of equal length is equal, and is not written nor synchronised again.
        let is_on_disk = self.known.contains_key(&file);
        if let Some(Waiting { offset, bytes }) = self.release(file) {
            if !is_on_disk && offset == 0 && before == Some(bytes.len() as u64) {
                return true;
            }
            self.write(file, offset, &bytes, &[]);
        }
        self.open.remove(&file);
        let Some(from) = self.known.remove(&file).flatten() else { return false };
        let is_equal = is_on_disk && before.is_some() && before == length(&from);
        let done = if is_equal { std::fs::remove_file(&from) } else { weir_files::put_in_place(&from, &to) };
        if let Err(error) = done {
            self.note(&from, &error);
        }
        before.is_some()
    }

    /// Writes two consecutive parts of a file to the disk.
    fn write(&mut self, file: u64, offset: u64, first: &[u8], second: &[u8]) {
        if let Err((path, error)) = self.try_write(file, offset, first, second) {
            self.note(&path, &error);
            self.known.insert(file, None);
            self.open.remove(&file);
            // The record says that the file is kept, but a write failed: the incomplete file must not get the name of a
            // complete one.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Writes two consecutive parts of a file. An error comes with the path of the file.
    fn try_write(
        &mut self,
        file: u64,
        offset: u64,
        first: &[u8],
        second: &[u8],
    ) -> Result<(), (PathBuf, io::Error)> {
        let final_path = self.directory.join(file_name(file));
        let path = match self.known.get(&file) {
            // An earlier write failed.
            Some(None) => return Ok(()),
            Some(Some(path)) => path.clone(),
            None => {
                self.make().map_err(|error| (self.directory.clone(), error))?;
                let part = Part::create(&final_path).map_err(|error| (final_path, error))?;
                let (opened, path) = part.into_file();
                self.hold(file, opened);
                self.known.insert(file, Some(path.clone()));
                path
            }
        };
        let named = |error| (path.clone(), error);
        if !self.open.contains_key(&file) {
            let opened = weir_files::open(&path).map_err(named)?;
            self.hold(file, opened);
        }
        let Some(to) = self.open.get_mut(&file) else { return Ok(()) };
        let moved = to.seek(SeekFrom::Start(offset));
        moved.and_then(|_| weir_files::write_both(to, first, second)).map_err(named)
    }

    /// Makes the directory of a function with its first file. A link is not followed.
    fn make(&mut self) -> io::Result<()> {
        if self.is_made {
            return Ok(());
        }
        match std::fs::symlink_metadata(&self.directory) {
            Ok(found) if !found.is_dir() => return Err(io::Error::other("not a directory")),
            Ok(_) => {}
            Err(_) => drop(weir_files::make_folders(&self.directory)?),
        }
        self.is_made = true;
        Ok(())
    }

    fn hold(&mut self, file: u64, opened: File) {
        // The next file to be written is not predictable, so all are closed.
        if self.open.len() >= OPEN {
            self.open.clear();
        }
        self.open.insert(file, opened);
    }

    fn note(&mut self, path: &Path, error: &io::Error) {
        self.failures.note(path, FileTrouble::of(failures::is_full(error)));
        if self.failed.is_none() {
            let named = io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            eprintln!("weir: {named}");
            self.failed = Some(named);
        }
    }
}

/// The length of a file; `None` if it is not there.
fn length(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|data| data.len())
}
