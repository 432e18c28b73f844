//! libpcap's `bpf_filter()`, the baseline of filter sets: the few functions that compile and run.
//!
//! The only unsafe code of this package. The `pcap` crate has a safe interface to these programs,
//! `pcap_offline_filter()`, which adds a header and two calls to each verdict, in favour of the compared program, and
//! uses the captured length as the length on the wire.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use weir_wire::Packet;

const ETHERNET: c_int = 1;
const SNAPLEN: c_int = 65_535;
const NETMASK_UNKNOWN: u32 = u32::MAX;

#[repr(C)]
struct RawProgram {
    len: c_uint,
    instructions: *mut c_void,
}

#[link(name = "pcap")]
unsafe extern "C" {
    fn pcap_open_dead(link: c_int, snaplen: c_int) -> *mut c_void;
    fn pcap_close(pcap: *mut c_void);
    fn pcap_compile(
        pcap: *mut c_void,
        program: *mut RawProgram,
        text: *const c_char,
        optimize: c_int,
        netmask: u32,
    ) -> c_int;
    fn pcap_geterr(pcap: *mut c_void) -> *const c_char;
    fn pcap_freecode(program: *mut RawProgram);
    fn bpf_filter(instructions: *const c_void, data: *const u8, wire_len: c_uint, len: c_uint) -> c_uint;
}

/// A compiled expression.
pub struct Program(RawProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: pcap_compile filled it, and it is freed once.
        unsafe { pcap_freecode(&mut self.0) }
    }
}

impl Program {
    /// Compiles expressions for Ethernet, optimised.
    pub fn compile(expressions: &[String]) -> Result<Vec<Self>, String> {
        // SAFETY: it takes two numbers and returns a handle or null.
        let pcap = unsafe { pcap_open_dead(ETHERNET, SNAPLEN) };
        if pcap.is_null() {
            return Err("pcap_open_dead() failed".to_owned());
        }
        let compile = |text: &String| {
            let bytes = CString::new(text.as_str()).map_err(|e| e.to_string())?;
            let mut program = RawProgram { len: 0, instructions: std::ptr::null_mut() };
            // SAFETY: the handle is open, the text ends with a zero byte, and the program is used only after success.
            // The message ends with a zero byte, and is copied before the handle is used again.
            unsafe {
                if pcap_compile(pcap, &mut program, bytes.as_ptr(), 1, NETMASK_UNKNOWN) != 0 {
                    return Err(format!("{text}: {}", CStr::from_ptr(pcap_geterr(pcap)).to_string_lossy()));
                }
            }
            Ok(Self(program))
        };
        let programs = expressions.iter().map(compile).collect();
        // SAFETY: the handle is open and closed once; programs do not depend on it.
        unsafe { pcap_close(pcap) }
        programs
    }

    /// Whether a packet matches.
    #[inline]
    pub fn matches(&self, packet: &Packet<'_>) -> bool {
        // SAFETY: pcap_compile made the program, and the length is that of the data.
        let keep = unsafe {
            bpf_filter(
                self.0.instructions,
                packet.data.as_ptr(),
                packet.wire_len,
                packet.data.len() as c_uint,
            )
        };
        keep != 0
    }
}
