//! Lines of modify.conf: which rules, what is replaced in their text, and by what.
//!
//! `RULES "FROM" "TO"`, `modifysid RULES "FROM" | "TO"` as in Oinkmaster, and `metadata-add RULES KEY VALUE`.

use super::rule::{MergedRule, beginning};
use super::selection::{Selection, reason};
use regex::bytes::{Captures, Regex, RegexBuilder};

/// A line of modify.conf.
#[derive(Debug)]
pub struct Modification {
    /// Its rules.
    pub of: Selection,
    change: Change,
}

#[derive(Debug)]
enum Change {
    /// Each match is replaced.
    Replace(Regex, Vec<Piece>),
    /// Options are added at the end.
    Add(String),
}

/// A part of what replaces a match.
#[derive(Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    /// What a group of the expression has matched.
    Group(usize),
}

impl Modification {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong.
    pub fn new(line: &str) -> Result<Self, String> {
        let words = words(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match *words {
            ["metadata-add", of, key, value] => {
                if [key, value].iter().any(|text| text.contains([';', ',', '\n'])) {
                    return Err("a pair of metadata has no `;` and no `,`".to_owned());
                }
                Ok(Self { of: Selection::new(of)?, change: Change::Add(format!(" metadata:{key} {value};")) })
            }
            ["modifysid", ref of @ .., from, "|", to] if !of.is_empty() => {
                Self::replace(&of.join(" "), from, to)
            }
            [of, from, to] => Self::replace(of, from, to),
            _ => Err(format!("a line is `RULES \"FROM\" \"TO\"`, and not `{}`", beginning(line))),
        }
    }

    fn replace(of: &str, from: &str, to: &str) -> Result<Self, String> {
        let expression = RegexBuilder::new(from).unicode(false).build().map_err(reason)?;
        let pieces = pieces(to);
        let greatest =
            pieces.iter().filter_map(|piece| if let Piece::Group(n) = piece { Some(*n) } else { None }).max();
        if let Some(group) = greatest.filter(|group| *group >= expression.captures_len()) {
            return Err(format!("the expression has no group {group}"));
        }
        Ok(Self { of: Selection::new(of)?, change: Change::Replace(expression, pieces) })
    }

    /// The text of a rule, changed; `None` if it stays as it is.
    pub fn changed(&self, rule: &MergedRule) -> Option<Vec<u8>> {
        let text = match &self.change {
            Change::Add(options) => {
                let body = rule.text.trim_ascii_end().strip_suffix(b")")?.trim_ascii_end();
                [body, options.as_bytes(), b")"].concat()
            }
            Change::Replace(expression, pieces) => expression
                .replace_all(&rule.text, |found: &Captures<'_>| replacement(pieces, found))
                .into_owned(),
        };
        (text != rule.text).then_some(text)
    }
}

fn replacement(pieces: &[Piece], found: &Captures<'_>) -> Vec<u8> {
    let of_piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.as_bytes().to_vec(),
        Piece::Group(group) => found.get(*group).map(|group| group.as_bytes().to_vec()).unwrap_or_default(),
    };
    pieces.iter().flat_map(of_piece).collect()
}

/// The words of a line, which quotes hold together. A `#` before a word begins a comment.
///
/// Between `"`, a `\` goes before `"` and `\`; elsewhere it is a part of the word, so that expressions need no second one.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', Some('"')) if letters.peek().is_some_and(|next| "\"\\".contains(*next)) => {
                word.get_or_insert_default().extend(letters.next());
            }
            (letter, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    match quote {
        Some(quote) => Err(format!("a {quote} has no other one")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

/// The parts of what replaces a match. Groups are `\1`, `\g<1>` and `${1}`; `\\` is a `\`, and `\$` a `$`.
fn pieces(text: &str) -> Vec<Piece> {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(letter) = rest.chars().next() {
        if let Some((group, after)) = group_at(rest) {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(Piece::Group(group));
            rest = after;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match (letter, rest.chars().next()) {
            ('\\', Some(next @ ('\\' | '$'))) => {
                plain.push(next);
                rest = &rest[1..];
            }
            _ => plain.push(letter),
        }
    }
    pieces.push(Piece::Text(plain));
    pieces
}

/// The group that a text begins with, and what follows it.
fn group_at(text: &str) -> Option<(usize, &str)> {
    let between = |rest: &'_ str| {
        rest.split_once(['}', '>']).and_then(|(number, _)| Some((number.parse().ok()?, number.len())))
    };
    for start in ["${", r"\g<"] {
        if let Some((group, length)) = text.strip_prefix(start).and_then(between) {
            return Some((group, text.get(start.len() + length + 1..)?));
        }
    }
    let rest = text.strip_prefix('\\')?;
    let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((rest.get(..digits)?.parse().ok()?, rest.get(digits..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str) -> Option<String> {
        let text = br#"alert tcp $HOME_NET any -> any any (msg:"a"; threshold:type limit, track by_src, count 1, seconds 60; sid:7;)"#;
        let rule = MergedRule::new(text, true, &"x.rules".into()).unwrap();
        let modification = Modification::new(line).unwrap();
        let text = if modification.of.has(&rule) { modification.changed(&rule) } else { None };
        text.map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn matches_are_replaced() {
        for (line, part) in [
            (r#"7 "seconds \d+" "seconds 3600""#, "seconds 3600; sid:7"),
            (r#"7 "seconds \d+" "seconds 3600" # a comment"#, "seconds 3600; sid:7"),
            (r#"re:msg "^(alert)(.*)" "drop\\2""#, "drop tcp $HOME_NET"),
            (r#"* '(count) (\d)' '\g<2> \1'"#, "1 count, seconds"),
            (r#"modifysid 5,7 "^alert(.*)" | "pass${1}""#, "pass tcp $HOME_NET any -> any any (msg:\"a\""),
            (r#"modifysid 5, 7 "^alert" | "pass""#, "pass tcp"),
            (r#"group:x "msg:\"a\"" "msg:\"b # c\"""#, "(msg:\"b # c\"; threshold"),
            (r#"7 "\$HOME_NET" "\$OTHER""#, "tcp $OTHER any"),
            (r#"7 "\$HOME_NET" "$EXTERNAL_NET""#, "tcp $EXTERNAL_NET any"),
            ("metadata-add 7 deployment perimeter", "sid:7; metadata:deployment perimeter;)"),
        ] {
            let text = changed(line).unwrap_or_default();
            assert!(text.contains(part), "{line}: {text}");
        }
        assert_eq!(changed(r#"8 "a" "b""#), None);
        assert_eq!(changed(r#"7 "nothing like this" "b""#), None);
        assert_eq!(changed(r#"7 "alert" "alert""#), None);
    }

    #[test]
    fn wrong_lines_have_a_reason() {
        for (line, part) in [
            (r#"7 "a""#, "a line is"),
            (r#"7 "a" "b" "c""#, "a line is"),
            (r#"modifysid 7 "a" "b""#, "a line is"),
            (r#"7 "a "b""#, "has no other one"),
            (r#"7 "(a" "b""#, "the expression is wrong"),
            (r#"7 "(a)" "\\2""#, "no group 2"),
            (r#"seven "a" "b""#, "names no rules"),
            ("metadata-add 7 a b;c", "no `;`"),
        ] {
            let error = Modification::new(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
