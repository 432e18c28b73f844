//! Two network namespaces with a link between them. Needs root and ip(8).

use super::*;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Two namespaces, `near` in the first linked to `far` in the second, deleted when the value is dropped. The link
/// carries only packets that a test sends.
pub struct Net {
    pub here: String,
    pub there: String,
}

impl Net {
    pub fn new() -> Option<Net> {
        if !is_root() {
            println!("skipped: not root");
            return None;
        }
        let name = format!("weir-t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let net = Net { here: format!("{name}a"), there: format!("{name}b") };
        for space in [&net.here, &net.there] {
            match Command::new("ip").args(["netns", "add", space]).output() {
                Ok(made) if made.status.success() => {}
                Ok(made) => {
                    println!("skipped: ip netns add: {}", String::from_utf8_lossy(&made.stderr));
                    return None;
                }
                Err(error) => {
                    println!("skipped: ip: {error}");
                    return None;
                }
            }
            let quiet = "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; \
                         echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6";
            let _ = net.inside(space, "sh").args(["-c", quiet]).stderr(Stdio::null()).status();
        }
        net.link();
        Some(net)
    }

    /// Creates the link.
    pub fn link(&self) {
        let (a, b) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let peer = ["peer", "name", "far", "address", b, "netns", &self.there];
        self.ip(
            &self.here,
            &[&["link", "add", "name", "near", "address", a, "type", "veth"][..], &peer].concat(),
        );
        self.ip(&self.there, &["link", "set", "far", "up"]);
        self.ip(&self.here, &["link", "set", "near", "up"]);
        self.ip(&self.here, &["address", "add", "10.77.0.1/24", "dev", "near"]);
        // A host that does not exist: packets to it cross the link and get no answer.
        self.ip(
            &self.here,
            &["neigh", "replace", "10.77.0.9", "lladdr", b, "dev", "near", "nud", "permanent"],
        );
    }

    pub fn ip(&self, space: &str, arguments: &[&str]) {
        let done = Command::new("ip").args(["-n", space]).args(arguments).output().unwrap();
        assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    pub fn inside(&self, space: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, program]);
        command
    }

    /// An ignored test of this test program in a namespace, in a process of its own.
    pub fn test(&self, space: &str, name: &str) -> Command {
        let mut command = self.inside(space, text(&std::env::current_exe().unwrap()));
        command.args(["--ignored", "--exact", name, "--nocapture"]);
        command
    }

    /// The program at the far end of the link.
    pub fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = self.inside(&self.there, env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
        command
    }

    /// Starts the program, and waits until it captures.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.listening(start(&mut self.weir(arguments)))
    }

    pub fn listening(&self, mut child: Child) -> Child {
        // A line for each socket follows the titles; its sixth word is 1 while the socket is active.
        let listening = || {
            let sockets = self.inside(&self.there, "cat").arg("/proc/net/packet").output().unwrap();
            let lines = String::from_utf8_lossy(&sockets.stdout).into_owned();
            lines.lines().skip(1).filter(|line| line.split_whitespace().nth(5) == Some("1")).count()
        };
        // There is a socket for each worker and interface. When the last is open, the process gives up its rights.
        let status = format!("/proc/{}/status", child.id());
        let confined = || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            text.lines().any(|line| {
                line.strip_prefix("CapEff:").is_some_and(|set| set.trim().trim_matches('0').is_empty())
            })
        };
        // A run that keeps rights has all of them when their number has not grown for a while.
        let (mut ended, mut before, mut equal) = (None, 0, 0);
        let ready = eventually(|| {
            ended = child.try_wait().unwrap();
            thread::sleep(Duration::from_millis(100));
            let is_confined = confined();
            let now = listening();
            equal = if now == before { equal + 1 } else { 0 };
            before = now;
            ended.is_some() || now > 0 && equal > 0 && (is_confined || equal >= 20)
        });
        assert!(ready && ended.is_none(), "the program does not listen: {:?}", finish(child));
        child
    }

    /// Starts to send `packets` datagrams, with a pause of `pause` microseconds after each hundred.
    pub fn begin_to_send(&self, packets: u64, pause: u64) -> Child {
        let mut command = self.test(&self.here, "sender");
        command.env("WEIR_SEND", format!("{packets} {pause}"));
        start(&mut command)
    }

    /// Starts to send datagrams of 1,472 bytes, which fill a frame; see [`Net::begin_to_send`].
    pub fn begin_to_send_large(&self, packets: u64, pause: u64) -> Child {
        let mut command = self.test(&self.here, "sender");
        command.env("WEIR_SEND", format!("{packets} {pause} 1472"));
        start(&mut command)
    }

    /// Starts to send datagrams on the loopback interface at the far end; see [`Net::begin_to_send`].
    pub fn begin_to_send_there(&self, packets: u64, pause: u64) -> Child {
        let mut command = self.test(&self.there, "sender");
        command.env("WEIR_SEND", format!("{packets} {pause}")).env("WEIR_SEND_FROM", "127.0.0.1");
        start(&mut command)
    }

    /// The number of datagrams sent.
    #[track_caller]
    pub fn sent(sender: Child) -> u64 {
        let ran = finish(sender).exits(0);
        let text = ran.text();
        let line = text
            .lines()
            .find_map(|line| line.split("datagrams sent: ").nth(1))
            .expect("the sender prints the number");
        line.trim().parse().unwrap()
    }

    /// Sends `packets` datagrams.
    #[track_caller]
    pub fn send(&self, packets: u64) -> u64 {
        Net::sent(self.begin_to_send(packets, 0))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in [&self.here, &self.there] {
            // Kills processes that a failed test has left in its namespace.
            if let Ok(left) = Command::new("ip").args(["netns", "pids", space]).output() {
                for process in String::from_utf8_lossy(&left.stdout).split_whitespace() {
                    let _ = Command::new("kill").args(["-s", "KILL", process]).status();
                }
            }
            let _ = Command::new("ip").args(["netns", "del", space]).stderr(Stdio::null()).status();
        }
    }
}

/// The body of a test called `sender`, which runs in a separate process inside a namespace.
pub fn send_unsegmented() {
    let Ok(order) = std::env::var("WEIR_SEND") else { return };
    let numbers: Vec<u64> = order.split(' ').map(|word| word.parse().unwrap()).collect();
    let (from, to) = match std::env::var("WEIR_SEND_FROM") {
        Ok(address) => (address.clone(), address),
        Err(_) => ("10.77.0.1".to_owned(), "10.77.0.9".to_owned()),
    };
    let socket = UdpSocket::bind((from.as_str(), 4000)).unwrap();
    socket.connect((to.as_str(), 9)).unwrap();
    let mut sent = 0;
    let large = vec![b'w'; numbers.get(2).map_or(0, |bytes| *bytes as usize)];
    let datagram = if large.is_empty() { &b"a datagram of weir"[..] } else { &large };
    for n in 1..=numbers[0] {
        sent += u64::from(socket.send(datagram).is_ok());
        if numbers[1] > 0 && n % 100 == 0 {
            thread::sleep(Duration::from_micros(numbers[1]));
        }
    }
    println!("datagrams sent: {sent}");
}
