//! The options of a TCP header (RFC 9293 3.2).

use weir_wire::Reader;

/// Maximum window scale (RFC 7323 2.3).
pub const MAX_SCALE: u8 = 14;

/// The options of a TCP header with its options, in order: the kind of each and a reader of its value. Ends at the end of the
/// list, or before an option that does not fit.
pub(crate) fn tcp_options(header: &[u8]) -> impl Iterator<Item = (u8, Reader<'_>)> {
    let mut options = Reader::new(header.get(20..).unwrap_or_default());
    std::iter::from_fn(move || {
        loop {
            match options.u8()? {
                0 => return None,
                1 => {}
                kind => {
                    let value = usize::from(options.u8()?).checked_sub(2)?;
                    return Some((kind, Reader::new(options.take(value)?)));
                }
            }
        }
    })
}

/// The window scale in the options of a SYN (RFC 7323 2.2), given the TCP header with its options.
pub fn window_scale(header: &[u8]) -> Option<u8> {
    tcp_options(header).find_map(|(kind, mut value)| if kind == 3 { value.u8() } else { None })
}
