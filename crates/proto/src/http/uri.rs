//! Request URIs.

/// Decodes `%XX` and `%uXXXX` as Zeek does: of `%%` one stays, other malformed sequences stay whole.
pub(super) fn unescaped(uri: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(uri.len());
    decode(uri, &mut |byte| found.push(byte));
    found
}

/// What is wrong in the escapes of a URI, each once, in Zeek's words.
pub(super) fn faults(uri: &[u8]) -> Vec<&'static str> {
    decode(uri, &mut |_| {})
}

/// Decodes escapes into `sink`, and returns what is wrong in them.
fn decode(uri: &[u8], sink: &mut dyn FnMut(u8)) -> Vec<&'static str> {
    let (mut rest, mut faults) = (uri, Vec::new());
    while let Some((first, later)) = rest.split_first() {
        rest = later;
        if *first != b'%' {
            sink(*first);
            continue;
        }
        let pair = |at: usize| Some(digit(*later.get(at)?)? << 4 | digit(*later.get(at + 1)?)?);
        let mut plain = |read: usize| {
            sink(b'%');
            later.get(..read).unwrap_or_default().iter().for_each(|byte| sink(*byte));
            read
        };
        let (read, fault) = match later {
            [] => (plain(0), Some("illegal_%_at_end_of_URI")),
            [b'%', ..] => (plain(0) + 1, Some("double_%_in_URI")),
            [_] => (plain(1), Some("partial_escape_at_end_of_URI")),
            _ => match (pair(0), later.first(), pair(1), pair(3)) {
                (Some(byte), ..) => {
                    sink(byte);
                    (2, None)
                }
                (_, Some(b'u'), Some(high), Some(low)) => {
                    sink(high);
                    sink(low);
                    (5, None)
                }
                _ => (plain(1), Some("unescaped_%_in_URI")),
            },
        };
        faults.extend(fault.filter(|fault| !faults.contains(fault)));
        rest = later.get(read..).unwrap_or_default();
    }
    faults
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// A URI as rules see it: its escapes decoded once, and in its path backslashes as slashes, repeated slashes as one, and dots
/// resolved.
pub(super) fn normal(uri: &[u8]) -> Vec<u8> {
    let (authority, rest) = split(uri);
    let start = uri.len() - rest.len();
    let head = if authority.is_some() { uri.get(..start).unwrap_or_default() } else { &[] };
    let end = rest.iter().position(|byte| *byte == b'?').unwrap_or(rest.len());
    let (path, query) = rest.split_at_checked(end).unwrap_or((rest, &[]));
    let mut path = unescaped(path);
    path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    if path.starts_with(b"/") {
        path = resolved(&path);
    }
    [head, &path, &unescaped(query)].concat()
}

/// The authority of a URI with a scheme (`http://user@host:port/path`), and the rest.
pub(super) fn split(uri: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let at = uri.windows(3).position(|window| window == b"://");
    let scheme = at.and_then(|at| uri.get(..at)).filter(|s| s.iter().all(u8::is_ascii_alphanumeric));
    let rest = scheme.filter(|scheme| !scheme.is_empty()).and_then(|scheme| uri.get(scheme.len() + 3..));
    let Some(rest) = rest else { return (None, uri) };
    let end = rest.iter().position(|o| matches!(o, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, &[]));
    let user = authority.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    (authority.get(user..), path)
}

/// A host and its port.
pub(super) fn host_port(authority: &[u8]) -> (Vec<u8>, Option<u16>) {
    let authority = authority.trim_ascii();
    let behind = authority.iter().rposition(|byte| *byte == b']').map_or(0, |at| at + 1);
    let colon = authority.get(behind..).and_then(|rest| rest.iter().position(|byte| *byte == b':'));
    let (host, port) = match colon {
        Some(at) => {
            let (host, port) = authority.split_at_checked(behind + at).unwrap_or((authority, &[]));
            (host, std::str::from_utf8(port.get(1..).unwrap_or_default()).ok().and_then(|p| p.parse().ok()))
        }
        None => (authority, None),
    };
    (host.to_ascii_lowercase(), port)
}

/// The path as the name of a file without another name: without query, decoded, with dots and double slashes resolved.
pub(super) fn path(uri: &[u8]) -> Vec<u8> {
    let (_, path) = split(uri);
    let path = path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let path = unescaped(path);
    if path.starts_with(b"/") { resolved(&path) } else { path }
}

/// A path from the root without repeated slashes and dots.
fn resolved(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut is_folder = false;
    for part in path.split(|byte| *byte == b'/') {
        is_folder = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut found = Vec::with_capacity(path.len());
    for part in &parts {
        found.push(b'/');
        found.extend_from_slice(part);
    }
    if is_folder {
        found.push(b'/');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_split() {
        assert_eq!(unescaped(b"/a%20b%2fc%zz%4"), b"/a b/c%zz%4");
        assert_eq!(unescaped(b"/%%41%u0041%"), b"/%41\0A%");
        assert_eq!(faults(b"/a%20b%2fc%zz%yy%4"), ["unescaped_%_in_URI", "partial_escape_at_end_of_URI"]);
        assert_eq!(faults(b"/%%41%u0041%"), ["double_%_in_URI", "illegal_%_at_end_of_URI"]);
        let host = |uri: &'static [u8]| split(uri).0.map(host_port);
        assert_eq!(host(b"http://u:p@Example.ORG:8080/x?y"), Some((b"example.org".to_vec(), Some(8080))));
        assert_eq!(host(b"http://[2001:db8::1]:80"), Some((b"[2001:db8::1]".to_vec(), Some(80))));
        assert_eq!(host(b"/x?u=http://y/"), None);
        assert_eq!(path(b"http://host/a/./b/../c//d.txt?q=/e"), b"/a/c/d.txt");
        assert_eq!(path(b"/"), b"/");
        assert_eq!(path(b"*"), b"*");
        assert_eq!(normal(b"http://host//a/%2e%2E/b\\c?q=%41//"), b"http://host/b/c?q=A//");
        assert_eq!(normal(b"/a%2520b/./c/"), b"/a%20b/c/");
    }
}
