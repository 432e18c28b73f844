//! Compares the decoder with recorded facts about the captures of ../shared/data.

mod captures;
mod pcap;
mod zeek;
