//! libpcap as the oracle: the few functions that compile, run and read.
//!
//! The library is C, so that every call is unsafe. Each of these wrappers keeps the handle alive for as long as it is
//! used, passes the lengths of the slices, and copies libpcap's results before the next call.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_filter::BpfInsn;
use weir_wire::{Hints, LinkType, Packet, Time};

#[repr(C)]
#[derive(Clone, Copy)]
struct Insn {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

#[repr(C)]
struct RawProgram {
    len: c_uint,
    insns: *mut Insn,
}

#[repr(C)]
struct Header {
    seconds: i64,
    micros: i64,
    captured: u32,
    len: u32,
}

#[link(name = "pcap")]
unsafe extern "C" {
    fn pcap_open_offline(path: *const c_char, error: *mut c_char) -> *mut c_void;
    fn pcap_close(pcap: *mut c_void);
    fn pcap_datalink(pcap: *mut c_void) -> c_int;
    fn pcap_datalink_val_to_name(dlt: c_int) -> *const c_char;
    fn pcap_snapshot(pcap: *mut c_void) -> c_int;
    fn pcap_next_ex(pcap: *mut c_void, header: *mut *const Header, data: *mut *const u8) -> c_int;
    fn pcap_compile(
        pcap: *mut c_void,
        program: *mut RawProgram,
        text: *const c_char,
        optimize: c_int,
        netmask: u32,
    ) -> c_int;
    fn pcap_geterr(pcap: *mut c_void) -> *const c_char;
    fn pcap_freecode(program: *mut RawProgram);
    fn bpf_filter(insns: *const Insn, data: *const u8, wire_len: c_uint, len: c_uint) -> c_uint;
}

/// An open capture file.
pub struct Pcap(*mut c_void);

impl Drop for Pcap {
    fn drop(&mut self) {
        // SAFETY: the handle came from pcap_open_offline and is closed once.
        unsafe { pcap_close(self.0) }
    }
}

/// A program that libpcap has compiled.
pub struct Program(RawProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: pcap_compile filled it, and it is freed once.
        unsafe { pcap_freecode(&mut self.0) }
    }
}

/// A packet, copied.
#[derive(Clone)]
pub struct Owned {
    pub data: Vec<u8>,
    pub wire_len: u32,
}

impl Owned {
    pub fn view(&self, link: LinkType) -> Packet<'_> {
        Packet {
            time: Time(0),
            data: &self.data,
            wire_len: self.wire_len,
            interface: 0,
            link,
            hints: Hints::default(),
            number: 0,
        }
    }
}

fn text_of(pointer: *const c_char) -> String {
    // SAFETY: libpcap ends its messages with a zero byte, within the buffer.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// libpcap's name for a link type, without its prefix.
pub fn name(link: LinkType) -> Option<String> {
    // SAFETY: the call reads a table and returns one of its strings, or null.
    let name = unsafe { pcap_datalink_val_to_name(c_int::from(link.0)) };
    (!name.is_null()).then(|| text_of(name))
}

impl Pcap {
    pub fn open(path: &Path) -> Result<Self, String> {
        let path = CString::new(path.to_str().ok_or("path")?).map_err(|e| e.to_string())?;
        let mut error = [0 as c_char; 256];
        // SAFETY: the path ends with a zero byte, and the buffer has PCAP_ERRBUF_SIZE bytes.
        let pcap = unsafe { pcap_open_offline(path.as_ptr(), error.as_mut_ptr()) };
        if pcap.is_null() { Err(text_of(error.as_ptr())) } else { Ok(Self(pcap)) }
    }

    /// A handle for an empty file of this link type, so that a program is compiled as by tcpdump -r.
    pub fn empty(link: LinkType, snaplen: u32) -> Self {
        let mut header = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, snaplen, u32::from(link.0)] {
            header.extend(word.to_le_bytes());
        }
        // Tests run in parallel, each with its own files.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-filter-{}-{number}.pcap", std::process::id()));
        std::fs::write(&path, header).unwrap();
        let pcap = Self::open(&path).unwrap();
        let _ = std::fs::remove_file(&path);
        pcap
    }

    /// The link type of the file. libpcap's own number for raw IP is a different one.
    pub fn link(&self) -> LinkType {
        // SAFETY: the handle is open.
        match unsafe { pcap_datalink(self.0) } {
            12 => LinkType::RAW,
            15 => LinkType::SLIP_BSDOS,
            dlt => LinkType(dlt as u16),
        }
    }

    pub fn snaplen(&self) -> u32 {
        // SAFETY: the handle is open.
        unsafe { pcap_snapshot(self.0) as u32 }
    }

    pub fn next_packet(&mut self) -> Option<Owned> {
        let mut header = std::ptr::null();
        let mut data = std::ptr::null();
        // SAFETY: the handle is open; on 1 both pointers are valid until the next call, and are copied here.
        unsafe {
            if pcap_next_ex(self.0, &mut header, &mut data) != 1 {
                return None;
            }
            let header = &*header;
            let data = std::slice::from_raw_parts(data, header.captured as usize).to_vec();
            Some(Owned { data, wire_len: header.len })
        }
    }

    pub fn compile(&self, text: &str, optimize: bool, netmask: u32) -> Result<Program, String> {
        let text = CString::new(text).map_err(|e| e.to_string())?;
        let mut program = RawProgram { len: 0, insns: std::ptr::null_mut() };
        // SAFETY: the handle is open, the text ends with a zero byte, and the program is only used after success.
        unsafe {
            if pcap_compile(self.0, &mut program, text.as_ptr(), c_int::from(optimize), netmask) != 0 {
                return Err(text_of(pcap_geterr(self.0)));
            }
        }
        Ok(Program(program))
    }
}

impl Program {
    pub fn insns(&self) -> Vec<BpfInsn> {
        // SAFETY: pcap_compile has set `len` to the number of instructions.
        let insns = unsafe { std::slice::from_raw_parts(self.0.insns, self.0.len as usize) };
        insns.iter().map(|i| BpfInsn { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect()
    }

    pub fn run(&self, packet: &Owned) -> u32 {
        // SAFETY: pcap_compile made the program, and the length is that of the data.
        unsafe {
            bpf_filter(self.0.insns, packet.data.as_ptr(), packet.wire_len, packet.data.len() as c_uint)
        }
    }
}
