//! The keywords of rules: one list, from which the parser, the manual and the tests are made.

mod alert;
mod certificate;
mod dcerpc;
mod file;
mod flags;
mod kerberos;
mod meta;
mod packet;
mod protocol;
mod refused;
mod row;
mod search;
mod state;
mod transform;

use crate::buffer::BUFFERS;
use crate::condition::NUMBERS;
use crate::fault::Fault;
use crate::nearest::hint;
use crate::value::Value;
pub use row::{Group, Keyword};
use row::{of_buffer, of_modifier, of_number};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Every keyword, by name.
pub static KEYWORDS: LazyLock<Vec<Keyword>> = LazyLock::new(|| {
    let rows = [
        meta::keywords(),
        state::keywords(),
        search::keywords(),
        transform::keywords(),
        packet::keywords(),
        protocol::keywords(),
        certificate::keywords(),
        dcerpc::keywords(),
        flags::keywords(),
        kerberos::keywords(),
        file::keywords(),
        alert::keywords(),
        refused::keywords(),
    ];
    let mut keywords: Vec<Keyword> = rows.into_iter().flatten().collect();
    keywords.extend(BUFFERS.iter().map(of_buffer));
    keywords.extend(BUFFERS.iter().filter_map(of_modifier));
    keywords.extend(NUMBERS.iter().map(of_number));
    keywords.sort_by_key(|keyword| keyword.name);
    keywords
});

/// The keywords by all of their names.
static BY_NAME: LazyLock<HashMap<&'static str, &'static Keyword>> = LazyLock::new(|| {
    let names = |keyword: &'static Keyword| {
        std::iter::once(keyword.name)
            .chain(keyword.old_names.iter().copied())
            .map(move |name| (name, keyword))
    };
    KEYWORDS.iter().flat_map(names).collect()
});

/// The keyword of a name.
pub fn keyword(name: &str) -> Option<&'static Keyword> {
    BY_NAME.get(name).copied()
}

/// The keyword of an option, or why it is none.
pub(crate) fn of_option(name: Value<'_>) -> Result<&'static Keyword, Fault> {
    let text = name.text()?;
    keyword(text).ok_or_else(|| {
        let hint = hint(text, BY_NAME.keys().copied());
        name.wrong(format!("`{}` is not a keyword{hint}", name.shown()))
    })
}

/// Whether rules with a keyword are in force.
pub(crate) fn is_in_force(name: &str) -> bool {
    keyword(name).is_some_and(|known| known.refusal().is_none())
}
