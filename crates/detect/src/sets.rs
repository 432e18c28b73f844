//! The lists of addresses and ports in a rule's header, with variables, negation and ranges.
//!
//! A list is what its members have together without what its negated members have; a list of negated members alone
//! is everything without them. A list that has nothing left is an error: its rule can never match.

use crate::fault::Fault;
use crate::nearest::nearest;
use crate::ranges::{Number, Ranges};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum depth of lists in lists and of variables in variables.
const MAX_DEPTH: usize = 32;

/// A set of IP addresses.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AddressSet {
    /// Addresses of IPv4.
    pub v4: Ranges<u32>,
    /// Addresses of IPv6.
    pub v6: Ranges<u128>,
}

impl AddressSet {
    /// Whether it has an address.
    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.has(address.into()),
            IpAddr::V6(address) => self.v6.has(address.into()),
        }
    }
}

/// A set of ports.
pub type PortSet = Ranges<u16>;

/// A set that a list makes.
trait Set: Sized + Clone {
    /// What its members are called.
    const MEMBERS: &'static str;

    fn all() -> Self;
    fn none() -> Self;
    fn is_none(&self) -> bool;
    fn union(self, other: Self) -> Self;
    fn without(&self, other: &Self) -> Self;

    /// The set of a single member.
    fn member(text: &str) -> Result<Self, String>;
}

impl Set for AddressSet {
    const MEMBERS: &'static str = "address";

    fn all() -> Self {
        Self { v4: Ranges::all(), v6: Ranges::all() }
    }

    fn none() -> Self {
        Self { v4: Ranges::none(), v6: Ranges::none() }
    }

    fn is_none(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    fn union(self, other: Self) -> Self {
        Self { v4: self.v4.union(other.v4), v6: self.v6.union(other.v6) }
    }

    fn without(&self, other: &Self) -> Self {
        Self { v4: self.v4.without(&other.v4), v6: self.v6.without(&other.v6) }
    }

    fn member(text: &str) -> Result<Self, String> {
        let address =
            |text: &str| text.parse::<IpAddr>().map_err(|_| format!("`{text}` is not an IP address"));
        if let Some((from, to)) = text.split_once('-') {
            return match (address(from.trim())?, address(to.trim())?) {
                (IpAddr::V4(from), IpAddr::V4(to)) => range(from.into(), to.into(), text).map(Self::of_v4),
                (IpAddr::V6(from), IpAddr::V6(to)) => range(from.into(), to.into(), text).map(Self::of_v6),
                _ => Err(format!("`{text}` begins and ends with addresses of two versions")),
            };
        }
        let (address, length) = match text.split_once('/') {
            Some((net, length)) => (address(net)?, Some(length)),
            None => (address(text)?, None),
        };
        match address {
            IpAddr::V4(net) => {
                let bits =
                    length.map_or(Ok(32), |length| v4_bits(length).ok_or_else(|| no_length(length, 32)))?;
                let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
                let net = u32::from(net) & !hosts;
                Ok(Self::of_v4((net, net | hosts)))
            }
            IpAddr::V6(net) => {
                let bits = length.map_or(Ok(128), |length| {
                    length.parse().ok().filter(|bits| *bits <= 128).ok_or_else(|| no_length(length, 128))
                })?;
                let hosts = u128::MAX.checked_shr(bits).unwrap_or(0);
                let net = u128::from(net) & !hosts;
                Ok(Self::of_v6((net, net | hosts)))
            }
        }
    }
}

impl AddressSet {
    fn of_v4(range: (u32, u32)) -> Self {
        Self { v4: Ranges::of(vec![range]), v6: Ranges::none() }
    }

    fn of_v6(range: (u128, u128)) -> Self {
        Self { v4: Ranges::none(), v6: Ranges::of(vec![range]) }
    }
}

/// The length of an IPv4 prefix, given as a number or as a netmask.
fn v4_bits(text: &str) -> Option<u32> {
    if text.contains('.') {
        let mask = u32::from(text.parse::<std::net::Ipv4Addr>().ok()?);
        return (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == 0).then(|| mask.leading_ones());
    }
    text.parse().ok().filter(|bits| *bits <= 32)
}

fn no_length(text: &str, greatest: u32) -> String {
    format!("`{text}` is not the length of a prefix; 0 to {greatest} are")
}

/// A range whose beginning does not exceed its end.
fn range<T: Number>(from: T, to: T, text: &str) -> Result<(T, T), String> {
    if from <= to { Ok((from, to)) } else { Err(format!("`{text}` ends before it begins")) }
}

impl Set for PortSet {
    const MEMBERS: &'static str = "port";

    fn all() -> Self {
        Self::all()
    }

    fn none() -> Self {
        Self::none()
    }

    fn is_none(&self) -> bool {
        self.is_none()
    }

    fn union(self, other: Self) -> Self {
        self.union(other)
    }

    fn without(&self, other: &Self) -> Self {
        self.without(other)
    }

    fn member(text: &str) -> Result<Self, String> {
        let port = |text: &str, default: u16| match text.trim() {
            "" => Ok(default),
            text => text.parse::<u16>().map_err(|_| format!("`{text}` is not a port; 0 to 65535 are")),
        };
        let (from, to) = match text.split_once(':') {
            Some((from, to)) if !from.is_empty() || !to.is_empty() => (port(from, 0)?, port(to, u16::MAX)?),
            Some(_) => return Err("`:` has neither a first nor a last port".to_owned()),
            None if text.is_empty() => return Err("a port is missing".to_owned()),
            None => (port(text, 0)?, port(text, 0)?),
        };
        range(from, to, text).map(|range| Self::of(vec![range]))
    }
}

/// The variables of rules: the lists that `$NAME` stands for.
#[derive(Clone, Debug)]
pub struct Variables {
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
}

impl Default for Variables {
    /// Those of Suricata's own configuration file.
    fn default() -> Self {
        let map =
            |rows: &[(&str, &str)]| rows.iter().map(|(name, is)| ((*name).into(), (*is).into())).collect();
        Self {
            addresses: map(&[
                ("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"),
                ("EXTERNAL_NET", "!$HOME_NET"),
                ("HTTP_SERVERS", "$HOME_NET"),
                ("SMTP_SERVERS", "$HOME_NET"),
                ("SQL_SERVERS", "$HOME_NET"),
                ("DNS_SERVERS", "$HOME_NET"),
                ("TELNET_SERVERS", "$HOME_NET"),
                ("AIM_SERVERS", "$EXTERNAL_NET"),
                ("DC_SERVERS", "$HOME_NET"),
                ("DNP3_SERVER", "$HOME_NET"),
                ("DNP3_CLIENT", "$HOME_NET"),
                ("MODBUS_CLIENT", "$HOME_NET"),
                ("MODBUS_SERVER", "$HOME_NET"),
                ("ENIP_CLIENT", "$HOME_NET"),
                ("ENIP_SERVER", "$HOME_NET"),
            ]),
            ports: map(&[
                ("HTTP_PORTS", "80"),
                ("SHELLCODE_PORTS", "!80"),
                ("ORACLE_PORTS", "1521"),
                ("SSH_PORTS", "22"),
                ("DNP3_PORTS", "20000"),
                ("MODBUS_PORTS", "502"),
                ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
                ("FTP_PORTS", "21"),
                ("GENEVE_PORTS", "6081"),
                ("VXLAN_PORTS", "4789"),
                ("TEREDO_PORTS", "3544"),
                ("SIP_PORTS", "[5060,5061]"),
            ]),
        }
    }
}

impl Variables {
    /// Sets a variable of addresses.
    pub fn set_addresses(&mut self, name: &str, list: &str) {
        self.addresses.insert(name.to_owned(), list.to_owned());
    }

    /// Sets a variable of ports.
    pub fn set_ports(&mut self, name: &str, list: &str) {
        self.ports.insert(name.to_owned(), list.to_owned());
    }

    /// Sets a variable by its name alone: those that exist keep their kind; else ports are what reads as ports, and `any` is of both kinds.
    ///
    /// # Errors
    /// The list reads neither as addresses nor as ports.
    pub fn set(&mut self, name: &str, list: &str) -> Result<(), String> {
        let (of_ports, of_addresses) = (self.ports.contains_key(name), self.addresses.contains_key(name));
        // A variable of neither kind, or of both, may be of either.
        let is_open = of_ports == of_addresses;
        let may_be_ports = parse::<PortSet>(list, &self.ports, 0).is_ok();
        if is_open {
            self.ports.remove(name);
            self.addresses.remove(name);
        }
        if is_open && may_be_ports && parse::<AddressSet>(list, &self.addresses, 0).is_ok() {
            // `any` is of both kinds.
            self.ports.insert(name.to_owned(), list.to_owned());
            self.addresses.insert(name.to_owned(), list.to_owned());
            return Ok(());
        }
        let are_ports = if is_open { may_be_ports } else { of_ports };
        let (variables, fault) = if are_ports {
            (&mut self.ports, parse::<PortSet>(list, &BTreeMap::new(), 0).err())
        } else {
            (&mut self.addresses, parse::<AddressSet>(list, &BTreeMap::new(), 0).err())
        };
        let before = variables.insert(name.to_owned(), list.to_owned());
        let fault = fault.filter(|_| !list.contains('$'));
        match (fault, before) {
            (None, _) => Ok(()),
            (Some(fault), Some(before)) => {
                variables.insert(name.to_owned(), before);
                Err(fault.reason)
            }
            (Some(fault), None) => {
                variables.remove(name);
                Err(fault.reason)
            }
        }
    }
}

/// The lists of a rule set. Equal texts are read once and share their set.
#[derive(Debug, Default)]
pub struct Lists {
    variables: Variables,
    addresses: HashMap<String, Result<Arc<AddressSet>, Fault>>,
    ports: HashMap<String, Result<Arc<PortSet>, Fault>>,
}

impl Lists {
    /// Lists with these variables.
    pub fn new(variables: Variables) -> Self {
        Self { variables, ..Self::default() }
    }

    /// The addresses of a list, which begins at a byte of the rule.
    ///
    /// # Errors
    /// What is wrong with the list.
    pub fn addresses(&mut self, text: &str, at: usize) -> Result<Arc<AddressSet>, Fault> {
        of(&mut self.addresses, text, at, &self.variables.addresses)
    }

    /// The ports of a list, which begins at a byte of the rule.
    ///
    /// # Errors
    /// What is wrong with the list.
    pub fn ports(&mut self, text: &str, at: usize) -> Result<Arc<PortSet>, Fault> {
        of(&mut self.ports, text, at, &self.variables.ports)
    }
}

/// The set of a list, read once.
fn of<S: Set>(
    known: &mut HashMap<String, Result<Arc<S>, Fault>>,
    text: &str,
    at: usize,
    variables: &BTreeMap<String, String>,
) -> Result<Arc<S>, Fault> {
    if let Some(set) = known.get(text) {
        return set.clone().map_err(|fault| Fault { at: fault.at + at, ..fault });
    }
    let set = parse::<S>(text, variables, 0).and_then(|set: S| match set.is_none() {
        true => {
            Err(Fault::wrong(0, format!("no {} is left in `{text}`; the rule could never match", S::MEMBERS)))
        }
        false => Ok(Arc::new(set)),
    });
    known.insert(text.to_owned(), set.clone());
    set.map_err(|fault| Fault { at: fault.at + at, ..fault })
}

/// The set of a list. Places of faults count from the beginning of the text.
fn parse<S: Set>(text: &str, variables: &BTreeMap<String, String>, depth: usize) -> Result<S, Fault> {
    let mut list = List { text, at: 0, variables, depth };
    let set = list.element::<S>()?.set();
    list.blanks();
    match list.at == text.len() {
        true => Ok(set),
        false => Err(list.fault(format!("`{}` follows the list", rest(text, list.at)))),
    }
}

fn rest(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

/// A member of a list.
struct Element<S> {
    set: S,
    is_negated: bool,
}

impl<S: Set> Element<S> {
    /// What it is on its own.
    fn set(self) -> S {
        if self.is_negated { S::all().without(&self.set) } else { self.set }
    }
}

/// Where a list is read.
struct List<'a> {
    text: &'a str,
    at: usize,
    variables: &'a BTreeMap<String, String>,
    depth: usize,
}

impl<'a> List<'a> {
    fn fault(&self, reason: String) -> Fault {
        Fault::wrong(self.at, reason)
    }

    fn blanks(&mut self) {
        let rest = rest(self.text, self.at);
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes a sign, if it comes next.
    fn takes(&mut self, sign: char) -> bool {
        self.blanks();
        let is_next = rest(self.text, self.at).starts_with(sign);
        self.at += usize::from(is_next);
        is_next
    }

    /// A member with the signs before it.
    fn element<S: Set>(&mut self) -> Result<Element<S>, Fault> {
        let mut is_negated = false;
        while self.takes('!') {
            is_negated = !is_negated;
        }
        if self.depth >= MAX_DEPTH {
            return Err(self.fault(format!("more than {MAX_DEPTH} lists or variables in each other")));
        }
        let set = if self.takes('[') { self.members()? } else { self.member()? };
        Ok(Element { set, is_negated })
    }

    /// The members of a list in brackets, after `[`.
    fn members<S: Set>(&mut self) -> Result<S, Fault> {
        let (mut with, mut without) = (None::<S>, S::none());
        self.depth += 1;
        loop {
            let element = self.element::<S>()?;
            if element.is_negated {
                without = without.union(element.set);
            } else {
                with = Some(with.unwrap_or_else(S::none).union(element.set));
            }
            if self.takes(']') {
                break;
            }
            if !self.takes(',') {
                return Err(self.fault(format!("`,` or `]` is missing after a member of `{}`", self.text)));
            }
        }
        self.depth -= 1;
        Ok(with.unwrap_or_else(S::all).without(&without))
    }

    /// `any`, a variable, or what the kind of list has.
    fn member<S: Set>(&mut self) -> Result<S, Fault> {
        self.blanks();
        let from = self.at;
        let text = rest(self.text, from);
        let text = text.get(..text.find([',', ']', '[']).unwrap_or(text.len())).unwrap_or_default();
        let member = text.trim_end();
        let set = if member.eq_ignore_ascii_case("any") {
            S::all()
        } else if let Some(name) = member.strip_prefix('$') {
            let Some(list) = self.variables.get(name) else {
                return Err(self.fault(self.unknown(name, S::MEMBERS)));
            };
            parse::<S>(list, self.variables, self.depth + 1)
                .map_err(|fault| self.fault(format!("in ${name} = {list}: {}", fault.reason)))?
        } else if member.is_empty() {
            return Err(self.fault(format!("a member of `{}` is missing", self.text)));
        } else {
            S::member(member).map_err(|reason| self.fault(reason))?
        };
        self.at = from + text.len();
        Ok(set)
    }

    fn unknown(&self, name: &str, members: &str) -> String {
        let near = nearest(name, self.variables.keys().map(String::as_str));
        let hint = near.map(|near| format!("; ${near} is one")).unwrap_or_default();
        format!("${name} is not a variable of {members}{}{hint}", if members == "port" { "s" } else { "es" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Result<Arc<AddressSet>, String> {
        Lists::default().addresses(text, 0).map_err(|fault| fault.reason)
    }

    fn ports(text: &str) -> Vec<(u16, u16)> {
        Lists::default().ports(text, 0).unwrap().as_slice().to_vec()
    }

    fn has(text: &str, address: &str) -> bool {
        addresses(text).unwrap().has(address.parse().unwrap())
    }

    #[test]
    fn lists_of_addresses() {
        assert!(has("any", "::1"));
        assert!(has("$HOME_NET", "10.1.2.3") && !has("$HOME_NET", "11.1.2.3") && !has("$HOME_NET", "::1"));
        assert!(has("$EXTERNAL_NET", "::1") && !has("$EXTERNAL_NET", "10.0.0.1"));
        assert!(has("[10.0.0.0/8,!10.1.0.0/255.255.0.0]", "10.2.0.1"));
        assert!(!has("[10.0.0.0/8, !10.1.0.0/16]", "10.1.0.1"));
        assert!(
            has("[![10.0.0.0/8,11.0.0.0/8]]", "12.0.0.0") && !has("![10.0.0.0/8,11.0.0.0/8]", "11.0.0.0")
        );
        assert!(has("1.2.3.4-1.2.3.9", "1.2.3.9") && !has("1.2.3.4-1.2.3.9", "1.2.3.10"));
        assert!(has("[2001:db8::/32,!2001:db8::1]", "2001:db8::2") && !has("2001:db8::/32", "1.1.1.1"));
        assert!(has("0.0.0.0/0", "255.255.255.255"));
        assert!(has("!!10.0.0.1", "10.0.0.1"));
    }

    #[test]
    fn lists_of_ports() {
        assert_eq!(ports("80"), [(80, 80)]);
        assert_eq!(ports("[80,443,8000:8100]"), [(80, 80), (443, 443), (8000, 8100)]);
        assert_eq!(ports("1024:"), [(1024, 65535)]);
        assert_eq!(ports(":1023"), [(0, 1023)]);
        assert_eq!(ports("[1:10,!5]"), [(1, 4), (6, 10)]);
        assert_eq!(ports("!$HTTP_PORTS"), [(0, 79), (81, 65535)]);
        assert_eq!(ports("$SHELLCODE_PORTS"), [(0, 79), (81, 65535)]);
    }

    #[test]
    fn wrong_lists_say_why() {
        for (text, part) in [
            ("[10.0.0.0/8,!10.0.0.0/8]", "no address is left"),
            ("!any", "no address is left"),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.0/255.0.255.0", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.0.0", "not an IP address"),
            ("$HOME_NTE", "$HOME_NET is one"),
            ("[10.0.0.1", "missing"),
            ("[]", "missing"),
            ("10.0.0.1,10.0.0.2", "follows"),
            ("1.2.3.9-1.2.3.4", "ends before"),
            ("1.2.3.4-::1", "two versions"),
        ] {
            let fault = addresses(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
        for (text, part) in
            [("70000", "65535"), ("90:80", "ends before"), (":", "neither"), ("[80,!80]", "is left")]
        {
            let fault = Lists::default().ports(text, 0).unwrap_err().reason;
            assert!(fault.contains(part), "{text}: {fault}");
        }
        let deep = format!("{}1.1.1.1{}", "[".repeat(1000), "]".repeat(1000));
        assert!(addresses(&deep).unwrap_err().contains("more than 32"));
    }

    #[test]
    fn a_variable_that_names_itself_ends() {
        let mut variables = Variables::default();
        variables.set_addresses("A", "$B");
        variables.set_addresses("B", "[$A]");
        let fault = Lists::new(variables).addresses("$A", 0).unwrap_err().reason;
        assert!(fault.contains("more than 32"), "{fault}");
    }

    #[test]
    fn variables_are_set_by_name() {
        let mut variables = Variables::default();
        variables.set("HOME_NET", "[192.0.2.0/24]").unwrap();
        variables.set("MY_PORTS", "[1,2]").unwrap();
        variables.set("MY_NETS", "any").unwrap();
        assert!(variables.set("HOME_NET", "x").is_err());
        let mut lists = Lists::new(variables.clone());
        assert!(lists.addresses("$HTTP_SERVERS", 0).unwrap().has("192.0.2.7".parse().unwrap()));
        assert_eq!(lists.ports("$MY_PORTS", 0).unwrap().as_slice(), [(1, 2)]);
        assert!(lists.addresses("$MY_NETS", 0).unwrap().has("192.0.2.7".parse().unwrap()));
        assert!(lists.ports("$MY_NETS", 0).unwrap().has(7));
        variables.set("MY_NETS", "10.0.0.0/8").unwrap();
        let mut lists = Lists::new(variables);
        assert!(!lists.addresses("$MY_NETS", 0).unwrap().has("192.0.2.7".parse().unwrap()));
        assert!(lists.ports("$MY_NETS", 0).is_err());
    }
}
