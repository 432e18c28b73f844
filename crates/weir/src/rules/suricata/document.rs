//! A configuration of Suricata as a list of settings: the path of each key, with its value as text.

use saphyr_parser::{Event, Parser, ScanError};

/// Maximum number of settings. Suricata's own file has about a thousand; they are looked for one after the other.
const MAX_SETTINGS: usize = 5_000;

/// What is said of a key whose value is an alias.
const ALIAS: &str = "aliases of YAML are not read, as in Suricata";

/// The settings of a configuration, in their order. A path is the names of its keys with dots between them; a member of a list has
/// its number, from 0, as name.
#[derive(Debug, Default)]
pub struct Document {
    settings: Vec<(String, String)>,
    /// The keys that were taken.
    taken: Vec<String>,
}

/// Where the next value is.
enum Level {
    /// In a mapping, after this key; `None` before a key.
    Mapping(Option<String>),
    /// In a list, at this place.
    List(usize),
}

fn path(levels: &[Level]) -> String {
    let names = levels.iter().map(|level| match level {
        Level::Mapping(key) => key.clone().unwrap_or_default(),
        Level::List(place) => place.to_string(),
    });
    names.collect::<Vec<_>>().join(".")
}

/// Takes note that a value has ended.
fn step(levels: &mut [Level]) {
    match levels.last_mut() {
        Some(Level::Mapping(key)) => *key = None,
        Some(Level::List(place)) => *place += 1,
        None => {}
    }
}

fn wrong(error: &ScanError) -> String {
    format!("line {}: {}", error.marker().line(), error.info())
}

impl Document {
    /// Reads a text of YAML. `include` reads the file that the top level includes by a name; its settings stand in the place of the
    /// name.
    ///
    /// # Errors
    /// It is not YAML, or an included file cannot be read.
    pub fn read(text: &str, include: &dyn Fn(&str) -> Result<Document, String>) -> Result<Self, String> {
        let mut document = Self::default();
        let mut levels: Vec<Level> = Vec::new();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| wrong(&error))?;
            match event {
                Event::MappingStart(..) => levels.push(Level::Mapping(None)),
                Event::SequenceStart(..) => levels.push(Level::List(0)),
                Event::MappingEnd | Event::SequenceEnd => {
                    levels.pop();
                    step(&mut levels);
                }
                Event::Scalar(value, ..) => {
                    if let Some(Level::Mapping(key @ None)) = levels.last_mut() {
                        *key = Some(value.into_owned());
                        continue;
                    }
                    document.value(&path(&levels), &value, include)?;
                    step(&mut levels);
                }
                Event::Alias(_) => return Err(format!("line {}: {ALIAS}", span.start.line())),
                _ => {}
            }
        }
        Ok(document)
    }

    fn value(
        &mut self,
        path: &str,
        value: &str,
        include: &dyn Fn(&str) -> Result<Document, String>,
    ) -> Result<(), String> {
        if path == "include" || path.starts_with("include.") {
            let included = include(value).map_err(|error| format!("{value}: {error}"))?;
            included.settings.iter().for_each(|(path, value)| self.put(path, value));
        } else if !matches!(value, "" | "~" | "null") {
            self.put(path, value);
        }
        match self.settings.len() > MAX_SETTINGS {
            true => Err(format!("it has more than {MAX_SETTINGS} settings")),
            false => Ok(()),
        }
    }

    fn put(&mut self, path: &str, value: &str) {
        match self.settings.iter_mut().find(|(known, _)| known == path) {
            Some((_, known)) => *known = value.to_owned(),
            None => self.settings.push((path.to_owned(), value.to_owned())),
        }
    }

    /// Sets a key, in the place of what it had.
    pub fn set(&mut self, path: &str, value: &str) {
        self.settings.retain(|(known, _)| !is_below(known, path));
        self.put(path, value);
    }

    /// Takes the value of a key.
    pub fn take(&mut self, path: &str) -> Option<String> {
        let place = self.settings.iter().position(|(known, _)| known == path)?;
        self.taken.push(path.to_owned());
        Some(self.settings.remove(place).1)
    }

    /// Takes the members of a key, or of each key of a mapping, with their paths below it.
    pub fn take_below(&mut self, path: &str) -> Vec<(String, String)> {
        let (below, others) = std::mem::take(&mut self.settings)
            .into_iter()
            .partition::<Vec<_>, _>(|(known, _)| is_below(known, path));
        self.settings = others;
        if !below.is_empty() {
            self.taken.push(path.to_owned());
        }
        let name = |known: String| known.get(path.len() + 1..).unwrap_or_default().to_owned();
        below.into_iter().map(|(known, value)| (name(known), value)).collect()
    }

    /// The keys that were not taken, each once: a key of which nothing was taken stands for all that is below it.
    pub fn left(&self) -> Vec<&str> {
        let mut left: Vec<&str> = Vec::new();
        for (path, _) in &self.settings {
            let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
            let mut shorter = ends.filter_map(|end| path.get(..end));
            let is_untaken =
                |part: &&str| !self.taken.iter().any(|taken| taken == part || is_below(taken, part));
            let part = shorter.find(is_untaken).unwrap_or(path);
            if !left.contains(&part) {
                left.push(part);
            }
        }
        left
    }
}

/// Whether a path is below another one.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    \
                        DNS: [1.1.1.1, 8.8.8.8]\nstream:\n  midstream: yes\n  memcap: 64mb\n\
                        outputs:\n  - fast:\n      enabled: no\n  - eve-log:\naction-order:\n  - pass\n  - drop\n";

    #[test]
    fn a_document_is_a_list_of_paths_with_values() {
        let mut document = Document::read(TEXT, &|_| Err("absent".to_owned())).unwrap();
        document.set("stream.midstream", "no");
        document.set("action-order", "none");
        assert_eq!(document.take("stream.midstream").as_deref(), Some("no"));
        assert_eq!(document.take("stream.midstream"), None);
        assert_eq!(document.take("action-order").as_deref(), Some("none"));
        let below = document.take_below("vars.address-groups");
        let below: Vec<(&str, &str)> = below.iter().map(|(path, value)| (&**path, &**value)).collect();
        assert_eq!(below, [("HOME_NET", "[10.0.0.0/8]"), ("DNS.0", "1.1.1.1"), ("DNS.1", "8.8.8.8")]);
        assert_eq!(document.left(), ["stream.memcap", "outputs"]);
    }

    #[test]
    fn included_settings_stand_where_their_file_is_named() {
        let other = |name: &str| match name {
            "other.yaml" => Document::read("a: 2\nb: 2\nc: 2\n", &|_| Err("no".to_owned())),
            _ => Err("absent".to_owned()),
        };
        let mut document = Document::read("a: 1\ninclude: other.yaml\nb: 3\n", &other).unwrap();
        let values = ["a", "b", "c"].map(|key| document.take(key).unwrap());
        assert_eq!(values, ["2", "3", "2"]);
        assert_eq!(Document::read("include: [gone.yaml]\n", &other).unwrap_err(), "gone.yaml: absent");
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_line() {
        let read = |text: &str| Document::read(text, &|_| Err(String::new())).unwrap_err();
        assert!(read("a: 1\nb: [1, 2\n").starts_with("line "), "{}", read("a: 1\nb: [1, 2\n"));
        assert_eq!(read("a: &x 1\nb: *x\n"), format!("line 2: {ALIAS}"));
        let many: String = (0..=MAX_SETTINGS).map(|n| format!("k{n}: 1\n")).collect();
        assert_eq!(read(&many), format!("it has more than {MAX_SETTINGS} settings"));
    }
}
