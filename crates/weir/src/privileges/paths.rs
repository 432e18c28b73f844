//! The files that a process may open after its rings are open (landlock(7)), and checks that its user may write to
//! them.

use super::user::{Account, name_of};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::fs::{Access as Wanted, OFlags, access};
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};
use std::{fmt, io};
use weir_files::{directory_of, target};

/// The Landlock version whose rights are used. An older kernel enforces those that it supports.
const KNOWN: ABI = ABI::V6;

/// Files of the system that are read during a run: names of hosts and ports, time zones, the C library's modules for
/// these, and devices.
static SYSTEM: &[&str] = &[
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/usr/lib",
    "/lib",
    "/lib64",
    "/dev/urandom",
];
/// A debug build reads its pages from the source tree while it runs; a release build contains them.
#[cfg(debug_assertions)]
static PAGES: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/dist")];
#[cfg(not(debug_assertions))]
static PAGES: &[&str] = &[];
/// The port of DNS.
const DNS: u16 = 53;
/// Devices that may be written to.
static DEVICES: &[&str] = &["/dev/null", "/dev/tty"];

/// The files and folders that a run opens after it has dropped its privileges.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// Folders of outputs, in which files are created, renamed and removed.
    folders: Vec<PathBuf>,
    /// Pipes and devices to write to.
    files: Vec<PathBuf>,
    /// Folders to create if missing.
    made: Vec<PathBuf>,
    /// Files and folders to read.
    read: Vec<PathBuf>,
    /// A temporary folder, which is removed at the end.
    temporary: Option<PathBuf>,
    /// Folders that may be written to on request. Missing permissions are reported with the request.
    optional: Vec<PathBuf>,
}

impl Paths {
    /// Adds a folder of outputs. It is created if missing.
    pub fn folder(&mut self, folder: &Path) {
        self.made.push(folder.to_owned());
        self.folders.push(folder.to_owned());
    }

    /// Adds a file to write, which other files in its folder may follow.
    pub fn file(&mut self, file: &Path) {
        if std::fs::metadata(file).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            return self.files.push(file.to_owned());
        }
        // A part replaces the target of a link.
        self.folders.push(directory_of(&target(file)).to_owned());
    }

    /// Adds a file that may be replaced later, such as a configuration.
    pub fn beside(&mut self, file: &Path) {
        self.optional(directory_of(&target(file)));
    }

    /// Adds a folder that may be written to later.
    pub fn optional(&mut self, folder: &Path) {
        self.optional.push(folder.to_owned());
    }

    /// Adds a file or folder to read.
    pub fn read(&mut self, path: &Path) {
        self.read.push(path.to_owned());
    }

    /// Adds a file to read again later. Another file may replace it, so that its folder is added.
    pub fn read_again(&mut self, file: &Path) {
        self.read(directory_of(&target(file)));
    }

    /// Adds a temporary folder, which exists.
    pub fn temporary(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
        self.temporary = Some(folder.to_owned());
    }

    /// Creates the missing folders, for the user that will write into them.
    ///
    /// # Errors
    /// A folder cannot be created or given to the user.
    pub fn make_folders(&self, user: Option<&Account>) -> Result<(), String> {
        // If a file has the name of a folder, the output reports it.
        for folder in self.made.iter().filter(|folder| folder.is_dir() || !folder.exists()) {
            let named = |error: std::io::Error| format!("{}: {error}", folder.display());
            let made = weir_files::make_folders(folder).map_err(named)?;
            if let Some((uid, gid)) = user.map(Account::numbers) {
                for folder in made {
                    lchown(folder, Some(uid), Some(gid)).map_err(named)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that the present user of the process may write to the outputs.
    ///
    /// # Errors
    /// A path that the user may not write to, and the command that changes it.
    pub fn check(&self) -> Result<(), String> {
        for folder in &self.folders {
            writable(folder, Wanted::WRITE_OK | Wanted::EXEC_OK)?;
        }
        for folder in &self.made {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for file in entries.map(|entry| entry.path()).filter(|path| is_continued(path)) {
                writable(&file, Wanted::READ_OK | Wanted::WRITE_OK)?;
            }
        }
        self.files.iter().try_for_each(|file| writable(file, Wanted::WRITE_OK))
    }

    /// Whether the user of the process owns everything that is written or read, and needs no capability for it.
    pub fn are_own(&self) -> bool {
        let me = nix::unistd::geteuid().as_raw();
        let is_own = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| data.uid() == me);
        let entries = self.made.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
        let entries = entries.flatten().flatten().map(|entry| entry.path());
        self.folders.iter().chain(&self.files).chain(&self.read).all(is_own)
            && entries.filter(|path| is_continued(path)).all(|path| is_own(&path))
    }

    /// Rules that refuse all files, all connections, and signals to other processes.
    ///
    /// # Errors
    /// The kernel refuses the rules. A kernel without Landlock does not.
    pub fn nothing() -> Result<RulesetCreated, RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .handle_access(AccessNet::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?
            .create()
    }

    /// Rules for a process that looks up names and connects to a port.
    ///
    /// # Errors
    /// The kernel refuses the rules. A kernel without Landlock does not.
    pub fn rules_of_sender(port: u16) -> Result<RulesetCreated, RulesetError> {
        let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        Self::nothing()?
            .add_rules(path_beneath_rules(SYSTEM, reading))?
            .add_rule(NetPort::new(port, AccessNet::ConnectTcp))?
            // Answers of DNS that are too long for a datagram.
            .add_rule(NetPort::new(DNS, AccessNet::ConnectTcp))
    }

    /// The rules of the kernel for these paths. Call it while the process may still reach all of them.
    ///
    /// # Errors
    /// The kernel refuses the rules. A kernel without Landlock does not.
    pub fn rules(&self) -> Result<RulesetCreated, RulesetError> {
        let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        let writing = reading
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir
            | AccessFs::Refer;
        let device: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        let above = self.temporary.as_deref().and_then(Path::parent);
        Self::nothing()?
            .add_rules(path_beneath_rules(self.folders.iter().chain(&self.optional), writing))?
            .add_rules(path_beneath_rules(&self.read, reading))?
            .add_rules(path_beneath_rules(SYSTEM, reading))?
            .add_rules(path_beneath_rules(PAGES, reading))?
            .add_rules(path_beneath_rules(&self.files, device))?
            .add_rules(path_beneath_rules(DEVICES, device))?
            // The empty folder itself is removed at the end.
            .add_rules(path_beneath_rules(above, AccessFs::RemoveDir))
    }
}

/// Whether a run continues a file that an earlier run left, perhaps as another user: databases, and logs that were not
/// rotated, whose names contain no time.
fn is_continued(path: &Path) -> bool {
    let is_ours = |end: &std::ffi::OsStr| ["log", "json", "csv", "db"].iter().any(|known| end == *known);
    let is_rolled = path.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some());
    path.extension().is_some_and(is_ours) && !is_rolled && path.is_file()
}

/// Enforces rules for this thread and its later children. Returns whether the kernel supports them.
///
/// # Errors
/// The kernel refuses the rules.
pub fn enforce(rules: RulesetCreated) -> Result<bool, RulesetError> {
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn writable(path: &Path, wanted: Wanted) -> Result<(), String> {
    match access(path, wanted) {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => Err(refusal(path)),
        // Opening the file reports the error.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(format!("{}: {}", path.display(), std::io::Error::from(error))),
    }
}

/// The message for a user who may not write, with the remedy.
fn refusal(path: &Path) -> String {
    let me = name_of(nix::unistd::geteuid().as_raw());
    let owner = std::fs::metadata(path).map_or_else(|_| "NAME".to_owned(), |data| name_of(data.uid()));
    let path = path.display();
    format!(
        "{path}: user {me} may not write here, and Weir runs as {me} after its rings are open: run `chown {me} {path}`, or \
         use --user {owner} to run as the owner"
    )
}

/// The text of an output's error, with the remedy if the user may not write.
pub fn explained(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!("{error}; {}", refusal(path)),
        _ => error.to_string(),
    }
}

/// Why a process cannot write to a path.
#[derive(Debug)]
pub struct Unwritable {
    /// The path and the reason, with the remedy.
    pub text: String,
    /// Whether the reason concerns every user. Another user may have the permission, and a missing folder may be created.
    pub is_certain: bool,
}

impl Unwritable {
    fn new(path: &Path, nearest: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{IsADirectory, NotADirectory, ReadOnlyFilesystem};
        let is_certain = matches!(error.kind(), IsADirectory | NotADirectory | ReadOnlyFilesystem);
        Self { text: format!("{}: {}", path.display(), explained(nearest, error)), is_certain }
    }
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks that the process may create files in a folder, by its user and by the rules of the kernel. A missing folder must be
/// one that the process may create. The file of the attempt does not remain.
///
/// # Errors
/// The process may not write there, or the path is no folder.
pub fn may_create_in(folder: &Path) -> Result<(), Unwritable> {
    attempt(folder, folder)
}

/// Checks that the process may write a file and others beside it, such as the parts that become the file. Pipes and devices
/// are written directly.
///
/// # Errors
/// The folder of the file is missing, or the process may not write into it.
pub fn may_write(file: &Path) -> Result<(), Unwritable> {
    let failed = |error: Errno| Unwritable::new(file, file, &error.into());
    match std::fs::metadata(file) {
        Ok(data) if data.is_dir() => return Err(failed(Errno::ISDIR)),
        Ok(data) if !data.is_file() => return access(file, Wanted::WRITE_OK).map_err(failed),
        _ => {}
    }
    // A part replaces the target of a link.
    let target = target(file);
    let folder = directory_of(&target);
    if nearest(folder) != folder && nearest(folder).is_dir() {
        return Err(failed(Errno::NOENT));
    }
    attempt(folder, file)
}

/// Tries to create a file in a folder, for a path in it.
fn attempt(folder: &Path, path: &Path) -> Result<(), Unwritable> {
    let nearest = nearest(folder);
    let failed = |error: &io::Error| Unwritable::new(path, nearest, error);
    if !nearest.is_dir() {
        return Err(failed(&Errno::NOTDIR.into()));
    }
    let nameless = OFlags::TMPFILE.bits().cast_signed();
    match OpenOptions::new().write(true).custom_flags(nameless).mode(0o600).open(nearest) {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            // The file system has no files without names: a file with a name is removed at once.
            Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let file = nearest.join(format!(".weir-{}", std::process::id()));
                let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
                made.and_then(|_| std::fs::remove_file(&file)).map_err(|error| failed(&error))
            }
            _ => Err(failed(&error)),
        },
    }
}

/// The part of a folder's path that exists.
fn nearest(folder: &Path) -> &Path {
    let existing =
        folder.ancestors().find(|path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok());
    existing.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_leave_nothing_and_tell_folders_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"1").unwrap();
        std::fs::create_dir(folder.path().join("c")).unwrap();
        may_create_in(&folder.path().join("c")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path().join("c")).unwrap().count(), 0);
        may_create_in(folder.path()).unwrap();
        may_create_in(&folder.path().join("a/b")).unwrap();
        may_write(&folder.path().join("new")).unwrap();
        may_write(&file).unwrap();
        may_write(Path::new("/dev/null")).unwrap();
        for wrong in [file.clone(), file.join("a"), PathBuf::from("/proc/a")] {
            let error = may_create_in(&wrong).unwrap_err();
            assert!(error.text.starts_with(&format!("{}: ", wrong.display())), "{error}");
            assert_eq!(error.is_certain, wrong != Path::new("/proc/a"), "{error}");
        }
        for wrong in
            [folder.path().to_owned(), folder.path().join("a/b"), file.join("a"), PathBuf::from("/proc/a")]
        {
            may_write(&wrong).unwrap_err();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(std::fs::read(&file).unwrap(), b"1");
    }
}
