//! Temporary files for targets that read files.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder of this thread, in memory if the system provides that.
pub struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let thread = format!("{:?}", std::thread::current().id());
        let number: String = thread.chars().filter(char::is_ascii_digit).collect();
        let folder = place.join(format!("weir-fuzz-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for scratch files");
        Self(folder)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file with these bytes.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("room for scratch files");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lends the folder of this thread.
pub fn with<T>(f: impl FnOnce(&Scratch) -> T) -> T {
    thread_local!(static SCRATCH: Scratch = Scratch::new());
    SCRATCH.with(f)
}
