//! Parses a TRex stateful profile.
//!
//! Only the subset of YAML in these profiles is supported: one key and value per line, `- name:` begins a template.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Sessions of a link.
#[derive(Debug, PartialEq)]
pub struct Profile {
    /// Addresses of clients, as numbers.
    pub clients: RangeInclusive<u32>,
    /// Addresses of servers.
    pub servers: RangeInclusive<u32>,
    /// The kinds of sessions.
    pub templates: Vec<Template>,
}

/// A capture of one session.
#[derive(Debug, PartialEq)]
pub struct Template {
    /// Path of the capture, relative to the profile's folder.
    pub name: String,
    /// New sessions per second.
    pub rate: f64,
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut addresses = [0_u32; 4];
        let mut templates: Vec<Template> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim().trim_start_matches("- ");
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim().trim_matches('"');
            let wrong = |what| format!("line {}: {what} `{value}`", number + 1);
            let known = ["clients_start", "clients_end", "servers_start", "servers_end"];
            match (key.trim(), templates.last_mut()) {
                ("name", _) => templates.push(Template { name: value.to_owned(), rate: 0.0 }),
                ("cps", Some(template)) => {
                    template.rate = value.parse().map_err(|_| wrong("not a rate:"))?;
                }
                (key, _) => {
                    if let Some(at) = known.iter().position(|name| *name == key) {
                        let address: Ipv4Addr = value.parse().map_err(|_| wrong("not an address:"))?;
                        addresses[at] = address.into();
                    }
                }
            }
        }
        let [clients, clients_end, servers, servers_end] = addresses;
        if clients == 0 || servers == 0 || clients > clients_end || servers > servers_end {
            return Err("expected clients_start, clients_end, servers_start and servers_end".to_owned());
        }
        if templates.is_empty() || templates.iter().any(|template| template.rate <= 0.0) {
            return Err("expected templates under cap_info, each with a name and a cps above 0".to_owned());
        }
        Ok(Self { clients: clients..=clients_end, servers: servers..=servers_end, templates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
- duration : 0.1
  generator :
          clients_start : \"16.0.0.1\"
          clients_end   : \"16.0.0.255\"   # the last one
          servers_start : \"48.0.0.1\"
          servers_end   : \"48.0.20.255\"
  #cap_override_ipg    : 200
  cap_info :
     - name: avl/a.pcap
       cps : 404.52
     - name: avl/b.pcap
       cps : 2
";

    #[test]
    fn a_profile_is_parsed() {
        let profile: Profile = TEXT.parse().unwrap();
        assert_eq!(profile.clients, 0x1000_0001..=0x1000_00ff);
        assert_eq!(profile.servers, 0x3000_0001..=0x3000_14ff);
        let template = |name: &str, rate| Template { name: name.to_owned(), rate };
        assert_eq!(profile.templates, [template("avl/a.pcap", 404.52), template("avl/b.pcap", 2.0)]);
    }

    #[test]
    fn missing_and_invalid_values_are_reported() {
        let error = |text: &str| text.parse::<Profile>().unwrap_err();
        assert!(error("").contains("clients_start"));
        assert!(error(&TEXT.replace("cps : 2", "cps : fast")).contains("not a rate: `fast`"));
        assert!(error(&TEXT.replace("cps : 2", "")).contains("cps"));
    }
}
