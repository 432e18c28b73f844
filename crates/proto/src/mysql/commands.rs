//! Commands: their names, and what answers them.

/// The commands that the parser knows by their numbers.
pub mod number {
    pub const QUIT: u8 = 1;
    pub const INIT_DB: u8 = 2;
    pub const QUERY: u8 = 3;
    pub const PING: u8 = 14;
    pub const CHANGE_USER: u8 = 17;
    pub const PREPARE: u8 = 22;
    pub const EXECUTE: u8 = 23;
    pub const SEND_LONG_DATA: u8 = 24;
    pub const CLOSE: u8 = 25;
    pub const RESET: u8 = 26;
}

/// What the server answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// The packets of a login.
    Login,
    /// OK, EOF or an error.
    Status,
    /// OK, an error, or a result with rows.
    Result,
    /// This number of descriptions of columns, and then rows.
    Columns(u64),
    /// Rows, up to EOF or OK. `true`: the EOF before them has come.
    Rows(bool),
    /// Descriptions of columns, up to EOF.
    Definitions,
    /// One packet, which is an error or good; what follows it does not count.
    First,
}

/// Zeek's name of a command; `None` for a number that is none.
pub fn word(number: u8) -> Option<&'static str> {
    const WORDS: [&str; 32] = [
        "sleep",
        "quit",
        "init_db",
        "query",
        "field_list",
        "create_db",
        "drop_db",
        "refresh",
        "shutdown",
        "statistics",
        "process_info",
        "connect",
        "process_kill",
        "debug",
        "ping",
        "time",
        "delayed_insert",
        "change_user",
        "binlog_dump",
        "table_dump",
        "connect_out",
        "register_slave",
        "stmt_prepare",
        "stmt_execute",
        "stmt_send_long_data",
        "stmt_close",
        "stmt_reset",
        "set_option",
        "stmt_fetch",
        "daemon",
        "binlog_dump_gtid",
        "reset_connection",
    ];
    match number {
        // MariaDB's own.
        0xfa => Some("stmt_bulk_execute"),
        _ => WORDS.get(usize::from(number)).copied(),
    }
}

/// What answers a command.
pub fn answer(number: u8) -> Answer {
    match number {
        number::QUIT | number::SEND_LONG_DATA | number::CLOSE => Answer::Nothing,
        number::QUERY | 10 | number::EXECUTE | 0xfa => Answer::Result,
        4 => Answer::Definitions,
        number::CHANGE_USER => Answer::Login,
        28 => Answer::Rows(true),
        // Statistics are a text; a dump of a log has no end.
        9 | 18 | 19 | 30 | number::PREPARE => Answer::First,
        _ => Answer::Status,
    }
}

/// Whether a command can have a packet of this length, without the header.
pub fn fits(number: u8, length: usize) -> bool {
    match number {
        number::QUIT | number::PING | 9 | 10 | 13 | 31 => length == 1,
        number::CLOSE | number::RESET => length == 5,
        number::QUERY | number::INIT_DB | number::PREPARE | 4..=6 => length > 1,
        _ => length > 0,
    }
}
