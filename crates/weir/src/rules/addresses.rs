//! What files of the user say about addresses: their reputations and countries.

use crate::exit::Exit;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_detect::{Places, Reputations};

/// The files.
#[derive(Default)]
pub struct AddressFiles<'o> {
    /// The names of categories of reputations.
    pub categories: Option<&'o Path>,
    /// Reputations of addresses.
    pub reputation: &'o [PathBuf],
    /// A database of the countries of addresses.
    pub geoip: Option<&'o Path>,
}

/// What is known of addresses.
#[derive(Default)]
pub struct Addresses {
    /// Their reputations.
    pub reputations: Reputations,
    /// Their countries, if a database is given.
    pub places: Option<Arc<dyn Places>>,
}

impl Addresses {
    /// Reads the files, each by `bytes`.
    ///
    /// # Errors
    /// A file or a line of it is not read: the exit code and the reason.
    pub fn read(
        files: &AddressFiles<'_>,
        bytes: impl Fn(&Path) -> Result<Vec<u8>, (Exit, String)>,
    ) -> Result<Self, (Exit, String)> {
        let named = |path: &Path, reason: String| (Exit::Unreadable, format!("{}: {reason}", path.display()));
        let mut all = Self::default();
        if let Some(path) = files.categories {
            all.reputations = Reputations::new(&bytes(path)?).map_err(|reason| named(path, reason))?;
        }
        for path in files.reputation {
            all.reputations.add(&bytes(path)?).map_err(|reason| named(path, reason))?;
        }
        if let Some(path) = files.geoip {
            let database = maxminddb::Reader::from_source(bytes(path)?);
            let database = database.map_err(|error| named(path, error.to_string()))?;
            all.places = Some(Arc::new(Countries(database)));
        }
        Ok(all)
    }
}

/// A database of countries in the MaxMind DB format.
struct Countries(maxminddb::Reader<Vec<u8>>);

impl fmt::Debug for Countries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.metadata().database_type)
    }
}

impl Places for Countries {
    fn country(&self, address: IpAddr) -> Option<[u8; 2]> {
        // Databases of cities and of countries have this field.
        let found = self.0.lookup(address).ok()?;
        let code: &str = found.decode_path(&maxminddb::path!["country", "iso_code"]).ok()??;
        code.to_ascii_uppercase().into_bytes().try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of one record: the lower half of the addresses of IPv4 is in the country with this code.
    fn database(code: &str) -> Vec<u8> {
        let text = |text: &str| [&[0x40 | text.len() as u8], text.as_bytes()].concat();
        let mut file = vec![0, 0, 17, 0, 0, 1];
        file.extend([0; 16]);
        file.extend([vec![0xe1], text("country"), vec![0xe1], text("iso_code"), text(code)].concat());
        file.extend(b"\xab\xcd\xefMaxMind.com");
        let numbers: [(&str, &[u8]); 6] = [
            ("node_count", &[0xc1, 1]),
            ("record_size", &[0xa1, 24]),
            ("ip_version", &[0xa1, 4]),
            ("binary_format_major_version", &[0xa1, 2]),
            ("binary_format_minor_version", &[0xa0]),
            ("build_epoch", &[0x01, 0x02, 1]),
        ];
        file.push(0xe0 | 9);
        for (name, value) in numbers {
            file.extend([text(name), value.to_vec()].concat());
        }
        file.extend([text("database_type"), text("Test"), text("languages"), vec![0, 4]].concat());
        file.extend([text("description"), vec![0xe0]].concat());
        file
    }

    #[test]
    fn a_database_has_the_countries_of_its_nets() {
        let country = |code: &str, address: &str| {
            let countries = Countries(maxminddb::Reader::from_source(database(code)).unwrap());
            countries.country(address.parse().unwrap())
        };
        assert_eq!(country("DE", "127.255.255.255"), Some(*b"DE"));
        assert_eq!(country("de", "10.0.0.1"), Some(*b"DE"));
        assert_eq!(country("DE", "128.0.0.0"), None);
        assert_eq!(country("DEU", "10.0.0.1"), None, "no code of two letters");
        assert_eq!(country("DE", "2001:db8::1"), None, "the database has none of IPv6");
        assert!(maxminddb::Reader::from_source(b"no database".to_vec()).is_err());
    }
}
