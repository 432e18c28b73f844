//! Packets in and out: pcap, pcapng, AF_PACKET.
