//! The interfaces: `weir -D`, and `weir` without arguments.

use crate::exit::{Exit, complain};
use std::time::Duration;
use weir_capture::{Interface, interfaces};

/// `weir -D`: one line for each interface, as tcpdump prints them.
pub fn list() -> Exit {
    let all = match interfaces() {
        Ok(all) => all,
        Err(error) => return complain(Exit::Unreadable, format!("cannot list interfaces: {error}")),
    };
    for (number, interface) in all.iter().enumerate() {
        println!("{}.{}{}", number + 1, interface.name, flags(interface));
    }
    println!("{}.any (all interfaces)", all.len() + 1);
    Exit::Good
}

fn flags(interface: &Interface) -> String {
    let mut words = Vec::new();
    if interface.up {
        words.push("Up".to_owned());
    }
    if interface.running {
        words.push("Running".to_owned());
    }
    if interface.loopback {
        words.push("Loopback".to_owned());
    }
    words.push(interface.link.to_string());
    words.extend(interface.addresses.iter().map(ToString::to_string));
    format!(" [{}]", words.join(", "))
}

/// `weir` without arguments: lists the interfaces with their present traffic, and suggests commands.
pub fn welcome() -> Exit {
    let before = match interfaces() {
        Ok(all) => all,
        Err(error) => return complain(Exit::Unreadable, format!("cannot list interfaces: {error}")),
    };
    let pause = Duration::from_millis(500);
    std::thread::sleep(pause);
    let after = interfaces().unwrap_or_else(|_| before.clone());
    println!("{:<16} {:>12} {:>12}  addresses", "interface", "packets/s", "kbit/s");
    let mut busiest = ("eth0", 0);
    for now in &after {
        let old = before.iter().find(|old| old.index == now.index).unwrap_or(now);
        let rate = |new: u64, old: u64| (new.saturating_sub(old)) as f64 / pause.as_secs_f64();
        let packets = rate(now.received.packets + now.sent.packets, old.received.packets + old.sent.packets);
        let bytes = rate(now.received.bytes + now.sent.bytes, old.received.bytes + old.sent.bytes);
        let total = now.received.packets + now.sent.packets;
        if total > busiest.1 && !now.loopback {
            busiest = (&now.name, total);
        }
        let addresses: Vec<String> = now.addresses.iter().map(ToString::to_string).collect();
        let state = if now.up { addresses.join(" ") } else { "down".to_owned() };
        println!("{:<16} {:>12.0} {:>12.1}  {}", now.name, packets, bytes * 8.0 / 1000.0, state);
    }
    let name = busiest.0;
    println!(
        "
  weir -i {name}                          live view
  weir -i {name} 'tcp port 443'           of the packets that match
  weir x.pcap                           a summary of a capture file
  weir x.pcap -o logs --log zeek,eve    logs into a directory
  weir count x.pcap -e tcp -e udp       packets and bytes of each expression
  weir --help                           all options"
    );
    Exit::Good
}
