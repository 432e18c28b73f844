//! Request URIs.

/// Decodes `%XX` as Zeek does: malformed sequences are kept.
pub(super) fn unescaped(uri: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(uri.len());
    let mut rest = uri;
    while let Some((first, later)) = rest.split_first() {
        let digits = later.first_chunk::<2>().filter(|_| *first == b'%');
        match digits.and_then(|[high, low]| Some((digit(*high)?, digit(*low)?))) {
            Some((high, low)) => {
                found.push(high << 4 | low);
                rest = later.get(2..).unwrap_or_default();
            }
            None => {
                found.push(*first);
                rest = later;
            }
        }
    }
    found
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
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
    if !path.starts_with(b"/") {
        return path;
    }
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
        let host = |uri: &'static [u8]| split(uri).0.map(host_port);
        assert_eq!(host(b"http://u:p@Example.ORG:8080/x?y"), Some((b"example.org".to_vec(), Some(8080))));
        assert_eq!(host(b"http://[2001:db8::1]:80"), Some((b"[2001:db8::1]".to_vec(), Some(80))));
        assert_eq!(host(b"/x?u=http://y/"), None);
        assert_eq!(path(b"http://host/a/./b/../c//d.txt?q=/e"), b"/a/c/d.txt");
        assert_eq!(path(b"/"), b"/");
        assert_eq!(path(b"*"), b"*");
    }
}
