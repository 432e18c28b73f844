//! The pcap-filter language: parsed, planned, decided; classic BPF out for the kernel.
