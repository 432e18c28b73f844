//! Decoding against what is known of the captures of ../shared/data.

mod captures;
mod pcap;
mod zeek;
