//! The files that a run may open when it has its rings (landlock(7)), and whether its user may write to them.

use super::user::{Account, name_of};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::fs::{Access as Wanted, access};
use rustix::io::Errno;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

/// The rights that are known here; a kernel with fewer enforces those that it has.
const KNOWN: ABI = ABI::V6;

/// Files of the system that are read while a run lasts: names of hosts and ports, time zones, the C library's modules for
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
/// Devices that are written to.
static DEVICES: &[&str] = &["/dev/null", "/dev/tty"];

/// What a run opens after it has given its rights away.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// Folders of outputs, in which files are made, renamed and removed.
    folders: Vec<PathBuf>,
    /// Pipes and devices that are written to.
    files: Vec<PathBuf>,
    /// Folders that are made where they are not there.
    made: Vec<PathBuf>,
    /// Files and folders that are read.
    read: Vec<PathBuf>,
    /// A temporary folder, which is removed at the end.
    temporary: Option<PathBuf>,
    /// Folders that may be written to by request, where the user may: what is refused then is said then.
    optional: Vec<PathBuf>,
}

impl Paths {
    /// A folder for outputs. It is made where it is not there.
    pub fn folder(&mut self, folder: &Path) {
        self.made.push(folder.to_owned());
        self.folders.push(folder.to_owned());
    }

    /// A file that is written, which may be followed by others beside it.
    pub fn file(&mut self, file: &Path) {
        if std::fs::metadata(file).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            return self.files.push(file.to_owned());
        }
        // A part becomes the file that a link leads to.
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        self.folders.push(folder.unwrap_or(Path::new(".")).to_owned());
    }

    /// A file that may be replaced later, such as a configuration.
    pub fn beside(&mut self, file: &Path) {
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        self.optional(folder.unwrap_or(Path::new(".")));
    }

    /// A folder that may be written to later.
    pub fn optional(&mut self, folder: &Path) {
        self.optional.push(folder.to_owned());
    }

    /// A file or folder that is read.
    pub fn read(&mut self, path: &Path) {
        self.read.push(path.to_owned());
    }

    /// A temporary folder, which is there.
    pub fn temporary(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
        self.temporary = Some(folder.to_owned());
    }

    /// Makes the folders that are not there, for the user that will write into them.
    ///
    /// # Errors
    /// When one cannot be made or given to the user.
    pub fn make_folders(&self, user: Option<&Account>) -> Result<(), String> {
        // Where a file has the name of a folder, its output says so.
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

    /// Whether the user that the process is by now may write where it has to.
    ///
    /// # Errors
    /// What may not be written, and the command that changes it.
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

    /// Rules that refuse all files, all connections, and signals to other processes.
    ///
    /// # Errors
    /// When the kernel refuses them. One without Landlock does not.
    pub fn nothing() -> Result<RulesetCreated, RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .handle_access(AccessNet::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?
            .create()
    }

    /// The rules of the kernel for these paths. They are made while the process may still reach all of them.
    ///
    /// # Errors
    /// When the kernel refuses them. One without Landlock does not.
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
            // The empty folder itself goes at the end.
            .add_rules(path_beneath_rules(above, AccessFs::RemoveDir))
    }
}

/// Whether a run goes on with a file that an earlier one left, perhaps as another user: databases, and logs that were not
/// rolled, whose names have no time in them.
fn is_continued(path: &Path) -> bool {
    let is_ours = |end: &std::ffi::OsStr| ["log", "json", "csv", "db"].iter().any(|known| end == *known);
    let is_rolled = path.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some());
    path.extension().is_some_and(is_ours) && !is_rolled && path.is_file()
}

/// Enforces rules for this thread and those that it makes; whether the kernel can.
///
/// # Errors
/// When the kernel refuses.
pub fn enforce(rules: RulesetCreated) -> Result<bool, RulesetError> {
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn writable(path: &Path, wanted: Wanted) -> Result<(), String> {
    match access(path, wanted) {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => Err(refusal(path)),
        // Who opens it says so.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(format!("{}: {}", path.display(), std::io::Error::from(error))),
    }
}

/// What to do where the user may not write.
fn refusal(path: &Path) -> String {
    let me = name_of(nix::unistd::geteuid().as_raw());
    let owner = std::fs::metadata(path).map_or_else(|_| "NAME".to_owned(), |data| name_of(data.uid()));
    let path = path.display();
    format!(
        "{path}: the user {me}, as which Weir runs once it listens, may not write here: `chown {me} {path}` changes that, or \
         --user {owner} runs as its owner"
    )
}

/// The text of an error of an output, with what to do where the user may not write.
pub fn explained(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!("{error}; {}", refusal(path)),
        _ => error.to_string(),
    }
}
