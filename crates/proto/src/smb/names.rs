//! Names of the protocol's numbers, and little-endian accessors.

use weir_wire::Time;

/// A 16-bit number, little-endian.
pub(super) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

/// A 32-bit number, little-endian.
pub(super) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// A 64-bit number, little-endian.
pub(super) fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Text of 16-bit characters.
pub(super) fn wide(bytes: &[u8]) -> Vec<u8> {
    let units: Vec<u16> =
        bytes.chunks_exact(2).filter_map(|pair| u16_at(pair, 0)).take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units).into_bytes()
}

/// A time in units of 100 ns since 1601; `None` for 0 and other values without a time.
pub(super) fn time(ticks: u64) -> Option<Time> {
    /// Offset of 1970 from 1601, in units of 100 ns.
    const BEFORE: u64 = 116_444_736_000_000_000;
    let since = ticks.checked_sub(BEFORE)?;
    since.checked_mul(100).map(Time)
}

/// A time in Zeek's representation, a floating-point number with a precision of two microseconds.
pub(super) fn rough_time(ticks: u64) -> Option<Time> {
    /// Offset of 1970 from 1601, in seconds.
    const BEFORE: f64 = 11_644_473_600.0;
    time(ticks)?;
    let seconds = ticks as f64 / 1e7 - BEFORE;
    let micros = (seconds.fract() * 1e6).round();
    Some(Time(seconds.trunc() as u64 * 1_000_000_000 + micros as u64 * 1000))
}

/// A GUID or an identifier of a file, in Suricata's notation.
pub(super) fn guid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, from) in [3, 2, 1, 0, 5, 4, 7, 6, 9, 8, 11, 10, 15, 14, 13, 12].into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{:02x}", bytes.get(from).copied().unwrap_or_default());
    }
    text
}

/// A dialect of version 2 and 3.
pub(super) fn dialect(number: u16) -> String {
    match number {
        0x0202 => "2.02".into(),
        0x0210 => "2.10".into(),
        0x02ff => "2.??".into(),
        0x0222 => "2.22".into(),
        0x0224 => "2.24".into(),
        0x0300 => "3.00".into(),
        0x0302 => "3.02".into(),
        0x0310 => "3.10".into(),
        0x0311 => "3.11".into(),
        number => format!("0x{number:04x}"),
    }
}

const COMMANDS: [&str; 19] = [
    "NEGOTIATE_PROTOCOL",
    "SESSION_SETUP",
    "SESSION_LOGOFF",
    "TREE_CONNECT",
    "TREE_DISCONNECT",
    "CREATE",
    "CLOSE",
    "FLUSH",
    "READ",
    "WRITE",
    "LOCK",
    "IOCTL",
    "CANCEL",
    "KEEPALIVE",
    "FIND",
    "CHANGE_NOTIFY",
    "GET_INFO",
    "SET_INFO",
    "OPLOCK_BREAK",
];

/// A command of version 2 and 3.
pub(super) fn command(number: u16) -> String {
    COMMANDS
        .get(usize::from(number))
        .map_or_else(|| format!("{number}"), |name| format!("SMB2_COMMAND_{name}"))
}

const OLD_COMMANDS: [(u8, &str); 33] = [
    (0x00, "CREATE_DIRECTORY"),
    (0x01, "DELETE_DIRECTORY"),
    (0x02, "OPEN"),
    (0x03, "CREATE"),
    (0x04, "CLOSE"),
    (0x05, "FLUSH"),
    (0x06, "DELETE"),
    (0x07, "RENAME"),
    (0x08, "QUERY_INFO"),
    (0x09, "SET_INFO"),
    (0x0a, "READ"),
    (0x0b, "WRITE"),
    (0x10, "CHECK_DIRECTORY"),
    (0x24, "LOCKING_ANDX"),
    (0x25, "TRANS"),
    (0x26, "TRANS_SECONDARY"),
    (0x2b, "ECHO"),
    (0x2d, "OPEN_ANDX"),
    (0x2e, "READ_ANDX"),
    (0x2f, "WRITE_ANDX"),
    (0x32, "TRANS2"),
    (0x33, "TRANS2_SECONDARY"),
    (0x34, "FIND_CLOSE2"),
    (0x70, "TREE_CONNECT"),
    (0x71, "TREE_DISCONNECT"),
    (0x72, "NEGOTIATE_PROTOCOL"),
    (0x73, "SESSION_SETUP_ANDX"),
    (0x74, "LOGOFF_ANDX"),
    (0x75, "TREE_CONNECT_ANDX"),
    (0x80, "QUERY_INFO_DISK"),
    (0xa0, "NT_TRANS"),
    (0xa2, "NT_CREATE_ANDX"),
    (0xa4, "NT_CANCEL"),
];

/// A command of version 1.
pub(super) fn old_command(number: u8) -> String {
    let name = OLD_COMMANDS.iter().find(|(of, _)| *of == number);
    name.map_or_else(|| format!("UNKNOWN-{number}"), |(_, name)| format!("SMB1_COMMAND_{name}"))
}

const BROWSER_COMMANDS: [(u8, &str); 10] = [
    (1, "HOST_ANNOUNCEMENT"),
    (2, "ANNOUNCEMENT_REQUEST"),
    (8, "REQUEST_ELECTION"),
    (9, "GET_BACKUP_LIST_REQUEST"),
    (10, "GET_BACKUP_LIST_RESPONSE"),
    (11, "BECOME_BACKUP"),
    (12, "DOMAIN_ANNOUNCEMENT"),
    (13, "MASTER_ANNOUNCEMENT"),
    (14, "RESET_STATE_REQUEST"),
    (15, "LOCAL_MASTER_ANNOUNCEMENT"),
];

/// A command of the browser protocol (MS-BRWS, 2.2).
pub(super) fn browser_command(number: u8) -> String {
    let name = BROWSER_COMMANDS.iter().find(|(of, _)| *of == number);
    name.map_or_else(|| format!("UNKNOWN-{number}"), |(_, name)| (*name).to_owned())
}

const STATUSES: [(u32, &str); 38] = [
    (0x0000_0000, "STATUS_SUCCESS"),
    (0x0000_0103, "STATUS_PENDING"),
    (0x0000_010b, "STATUS_NOTIFY_CLEANUP"),
    (0x0000_010c, "STATUS_NOTIFY_ENUM_DIR"),
    (0x8000_0005, "STATUS_BUFFER_OVERFLOW"),
    (0x8000_0006, "STATUS_NO_MORE_FILES"),
    (0xc000_0001, "STATUS_UNSUCCESSFUL"),
    (0xc000_0002, "STATUS_NOT_IMPLEMENTED"),
    (0xc000_0003, "STATUS_INVALID_INFO_CLASS"),
    (0xc000_0008, "STATUS_INVALID_HANDLE"),
    (0xc000_000d, "STATUS_INVALID_PARAMETER"),
    (0xc000_000f, "STATUS_NO_SUCH_FILE"),
    (0xc000_0010, "STATUS_INVALID_DEVICE_REQUEST"),
    (0xc000_0011, "STATUS_END_OF_FILE"),
    (0xc000_0016, "STATUS_MORE_PROCESSING_REQUIRED"),
    (0xc000_0022, "STATUS_ACCESS_DENIED"),
    (0xc000_0023, "STATUS_BUFFER_TOO_SMALL"),
    (0xc000_0033, "STATUS_OBJECT_NAME_INVALID"),
    (0xc000_0034, "STATUS_OBJECT_NAME_NOT_FOUND"),
    (0xc000_0035, "STATUS_OBJECT_NAME_COLLISION"),
    (0xc000_003a, "STATUS_OBJECT_PATH_NOT_FOUND"),
    (0xc000_0043, "STATUS_SHARING_VIOLATION"),
    (0xc000_0054, "STATUS_FILE_LOCK_CONFLICT"),
    (0xc000_0056, "STATUS_DELETE_PENDING"),
    (0xc000_0064, "STATUS_NO_SUCH_USER"),
    (0xc000_006a, "STATUS_WRONG_PASSWORD"),
    (0xc000_006d, "STATUS_LOGON_FAILURE"),
    (0xc000_006e, "STATUS_ACCOUNT_RESTRICTION"),
    (0xc000_0072, "STATUS_ACCOUNT_DISABLED"),
    (0xc000_00ba, "STATUS_FILE_IS_A_DIRECTORY"),
    (0xc000_00bb, "STATUS_NOT_SUPPORTED"),
    (0xc000_00c9, "STATUS_NETWORK_NAME_DELETED"),
    (0xc000_00cc, "STATUS_BAD_NETWORK_NAME"),
    (0xc000_0101, "STATUS_DIRECTORY_NOT_EMPTY"),
    (0xc000_0120, "STATUS_CANCELLED"),
    (0xc000_0128, "STATUS_FILE_CLOSED"),
    (0xc000_0203, "STATUS_USER_SESSION_DELETED"),
    (0xc000_0225, "STATUS_NOT_FOUND"),
];

/// The name of a status, or its number if it has none.
pub(super) fn status(number: u32) -> String {
    STATUSES
        .iter()
        .find(|(of, _)| *of == number)
        .map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// A DOS error, from before NT statuses.
pub(super) fn old_error(class: u8, code: u16) -> String {
    match (class, code) {
        (1, 1) => "DOS_BADFUNC".into(),
        (1, 2) => "DOS_BADFILE".into(),
        (1, 3) => "DOS_BADPATH".into(),
        (1, 5) => "DOS_NOACCESS".into(),
        (1, 6) => "DOS_BADFID".into(),
        (2, 1) => "SRV_ERROR".into(),
        (2, 2) => "SRV_BADPW".into(),
        (2, 5) => "SRV_BADTID".into(),
        (2, 6) => "SRV_ACCESS".into(),
        (2, 0x5b) => "SRV_BADUID".into(),
        _ => format!("UNKNOWN_{class:02x}_{code:04x}"),
    }
}

/// The names that an NTLM client sends, if a message contains them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ntlm {
    pub domain: Vec<u8>,
    pub user: Vec<u8>,
    pub host: Vec<u8>,
    pub version: Option<String>,
}

impl Ntlm {
    /// Looks for an AUTHENTICATE message (MS-NLMP 2.2.1.3) in a security blob.
    pub fn find(blob: &[u8]) -> Option<Self> {
        const UNICODE: u32 = 1;
        const HAS_VERSION: u32 = 0x0200_0000;
        let at = blob.windows(8).position(|window| window == b"NTLMSSP\0")?;
        let message = blob.get(at..)?;
        if u32_at(message, 8)? != 3 {
            return None;
        }
        let flags = u32_at(message, 60).unwrap_or(UNICODE);
        let text = |at: usize| {
            let bytes = u16_at(message, at)?;
            let begin = u32_at(message, at + 4)? as usize;
            let text = message.get(begin..)?.get(..bytes.into())?;
            Some(if flags & UNICODE == 0 { text.to_vec() } else { wide(text) })
        };
        let version = || {
            (flags & HAS_VERSION != 0).then_some(())?;
            let (high, low) = (message.get(64)?, message.get(65)?);
            Some(format!("{high}.{low} build {} rev {}", u16_at(message, 66)?, message.get(71)?))
        };
        Some(Self {
            domain: text(28).unwrap_or_default(),
            user: text(36).unwrap_or_default(),
            host: text(44).unwrap_or_default(),
            version: version(),
        })
    }
}

/// Whether the first mechanism in a security blob is Kerberos 5.
pub(super) fn is_kerberos(blob: &[u8]) -> bool {
    /// 1.2.840.113554.1.2.2, and Microsoft's variant of it with a wrong number.
    const NAMES: [&[u8]; 2] =
        [b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02", b"\x2a\x86\x48\x82\xf7\x12\x01\x02\x02"];
    let is_ntlm = blob.windows(7).any(|window| window == b"NTLMSSP");
    !is_ntlm && blob.windows(9).any(|window| NAMES.contains(&window))
}
