//! The interfaces of a run, and limits on the texts kept of files.

use super::describe::{InputInfo, InterfaceInfo};

/// Maximum number of interfaces with their own entry. All further ones share the entry with this index.
pub const MAX_INTERFACES: usize = 65_536;

/// Maximum length of one text, and of all texts of a run, in bytes.
const TEXT: usize = 4 << 10;
const TEXTS: usize = 4 << 20;
/// Maximum number of comments, and of machine descriptions, kept of an input.
const LINES: usize = 1_024;

/// Interfaces of all inputs, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    pub(crate) list: Vec<InterfaceInfo>,
    /// Number of interfaces that share the last entry.
    pub(crate) beyond: u64,
    texts: usize,
}

impl Interfaces {
    /// Gives an interface its index.
    pub(crate) fn add(&mut self, info: InterfaceInfo) -> u32 {
        if self.list.len() < MAX_INTERFACES {
            self.list.push(info);
            return self.list.len() as u32 - 1;
        }
        self.beyond += 1;
        if self.list.len() == MAX_INTERFACES {
            self.list.push(InterfaceInfo { name: Some("other".to_owned()), ..info });
        }
        MAX_INTERFACES as u32
    }

    /// A text of a file, if the limits allow it; invalid UTF-8 is replaced.
    pub(crate) fn text(&mut self, raw: &[u8], info: &mut InputInfo) -> Option<String> {
        let raw = raw.split(|byte| *byte == 0).next().unwrap_or_default();
        if raw.is_empty() {
            return None;
        }
        if raw.len() > TEXT || self.texts + raw.len() > TEXTS {
            info.texts_dropped += 1;
            return None;
        }
        self.texts += raw.len();
        Some(String::from_utf8_lossy(raw).into_owned())
    }

    pub(crate) fn comment(&mut self, raw: &[u8], info: &mut InputInfo) {
        if info.comments.len() >= LINES {
            info.texts_dropped += 1;
        } else if let Some(text) = self.text(raw, info) {
            info.comments.push(text);
        }
    }

    pub(crate) fn machine(&mut self, raw: &[u8], info: &mut InputInfo) {
        if info.machine.len() >= LINES {
            info.texts_dropped += 1;
        } else if let Some(text) = self.text(raw, info) {
            info.machine.push(text);
        }
    }
}
