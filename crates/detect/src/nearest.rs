//! The known name that a wrong one may have meant.

/// The name that is most like a given one, if it is like it at all. Names of more than 60 bytes are like none.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 60;
    const LIKE: f64 = 0.8;
    if name.len() > LONGEST {
        return None;
    }
    let likeness = |known: &'a str| (strsim::jaro_winkler(known, name), known);
    let best = known.map(likeness).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    best.filter(|(likeness, _)| *likeness > LIKE).map(|(_, known)| known)
}

/// The end of a message that names it.
pub(crate) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!("; `{near}` is one")).unwrap_or_default()
}
