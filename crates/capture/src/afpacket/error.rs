//! Errors of a live capture.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::interface::interfaces;
use strsim::levenshtein;

/// The reason why a live capture cannot start or continue. The text names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The process may not open packet sockets. The text contains the command that gives it the capability.
    #[error("{}", privilege_text(std::env::current_exe().ok().as_deref()))]
    Privilege,
    /// No interface has that name. The text lists the existing ones.
    #[error("{}", unknown_text(.name, .have))]
    UnknownInterface {
        /// The requested name.
        name: String,
        /// The existing names.
        have: Vec<String>,
    },
    /// No interface was named, or one was named twice, or the number of workers is out of range.
    #[error("{0}")]
    Options(&'static str),
    /// The kernel refused a step.
    #[error("cannot {step} on interface {interface}: {source}")]
    Setup {
        /// The failed operation.
        step: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel has no memory for a ring.
    #[error(
        "cannot allocate {bytes} bytes of ring memory for interface {interface}: {source}; use a smaller ring"
    )]
    Memory {
        /// The requested size, for one worker.
        bytes: usize,
        /// The interface.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The helper process cannot do what was requested.
    #[error("{0}")]
    Helper(String),
    /// An interface exists again, and the helper process cannot open a ring on it.
    #[error("cannot reopen interface {interface}: {reason}")]
    Reopen {
        /// The interface.
        interface: String,
        /// The error message of the helper.
        reason: String,
    },
    /// Waiting for packets or reading counters failed.
    #[error("cannot read packets: {0}")]
    Read(#[from] io::Error),
}

impl LiveError {
    /// The error of a failed step, by the kernel's error number.
    pub(super) fn setup(step: &'static str, interface: &str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege,
            _ => Self::Setup { step, interface: interface.to_owned(), source },
        }
    }

    /// The error of a missing interface, without the names of others.
    pub(super) fn absent(name: &str) -> Self {
        Self::UnknownInterface { name: name.to_owned(), have: Vec::new() }
    }

    /// The error of a missing interface.
    pub(super) fn unknown(name: &str) -> Self {
        let have = interfaces().unwrap_or_default().into_iter().map(|i| i.name).collect();
        Self::UnknownInterface { name: name.to_owned(), have }
    }
}

/// CAP_NET_RAW suffices for everything in this crate, including promiscuous mode: the kernel requires no other
/// capability for PACKET_ADD_MEMBERSHIP.
fn privilege_text(program: Option<&Path>) -> String {
    let program = program.map_or_else(|| "/path/to/weir".to_owned(), |p| quote(&p.display().to_string()));
    format!(
        "live capture needs the capability CAP_NET_RAW (to open a packet socket; promiscuous mode needs no other). \
         Give it to the program once:\n\n    sudo setcap cap_net_raw=ep {program}\n\n\
         or run it as root; in a container, add NET_RAW (docker run --cap-add NET_RAW)."
    )
}

/// Quotes a path for a shell.
fn quote(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn unknown_text(name: &str, have: &[String]) -> String {
    let mut text = format!("there is no interface {name:?}");
    let near = have.iter().map(|n| (levenshtein(name, n), n)).min();
    if let Some((d, near)) = near
        && d * 2 <= name.chars().count().max(2)
    {
        let _ = write!(text, " (did you mean {near:?}?)");
    }
    let _ = write!(text, "; the interfaces are: {}, any", have.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_privilege_error_contains_the_setcap_command() {
        let text = privilege_text(Some(Path::new("/usr/bin/weir")));
        assert!(text.contains("\n    sudo setcap cap_net_raw=ep /usr/bin/weir\n"), "{text}");
        let text = privilege_text(Some(Path::new("/home/an user/it's weir")));
        assert!(text.contains(r"sudo setcap cap_net_raw=ep '/home/an user/it'\''s weir'"), "{text}");
    }

    #[test]
    fn an_unknown_interface_gets_a_suggestion() {
        let have = ["lo", "eth0", "wlan0"].map(str::to_owned);
        let text = unknown_text("eth1", &have);
        assert_eq!(
            text,
            "there is no interface \"eth1\" (did you mean \"eth0\"?); the interfaces are: lo, eth0, wlan0, any"
        );
        let text = unknown_text("enp0s31f6", &have);
        assert_eq!(text, "there is no interface \"enp0s31f6\"; the interfaces are: lo, eth0, wlan0, any");
    }
}
