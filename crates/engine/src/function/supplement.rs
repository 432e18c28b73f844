//! What the pass adds for the functions that see or deliver records: checksums of files, measurements of flows, alerts of rules.
//! Nothing of its own leaves, so that no code of it sees an item.

use super::{Argument, Arguments};
use crate::demand::Demand;
use crate::streams::Measuring;
use weir_api::{FunctionCall, Level};
use weir_proto::Hashes;

/// Everything that can be added.
pub static SUPPLEMENTS: &[&Supplement] = &[&HASH, &MEASURE, &RULES];

/// Description of what is added.
#[derive(Debug)]
pub struct Supplement {
    /// The name by which options ask for it.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The level that it is asked for at.
    pub level: Level,
    /// What it needs of the pass.
    demand: fn(&Arguments<'_>) -> Result<Demand, String>,
}

impl Supplement {
    /// That of a name.
    pub fn find(name: &str) -> Option<&'static Supplement> {
        SUPPLEMENTS.iter().find(|supplement| supplement.name == name).copied()
    }

    /// Whether the rules of the run look at flows for it.
    pub(crate) fn looks_with_rules(&self) -> bool {
        std::ptr::eq(self, &RULES)
    }

    /// What a call needs of the pass.
    ///
    /// # Errors
    /// An argument is invalid; the text has the accepted values.
    pub fn demand(&self, call: &FunctionCall) -> Result<Demand, String> {
        (self.demand)(&Arguments::new(self.name, self.arguments, call, 0_u64.into())?)
    }
}

static HASH: Supplement = Supplement {
    name: "hash",
    help: "Checksums of files in records of files.",
    arguments: &[Argument {
        name: "of",
        help: "md5, sha1, sha256, joined by plus signs, or `none`.",
        default: Some("sha256"),
    }],
    level: Level::Stream,
    demand: |arguments| {
        let mut hashes = Hashes::default();
        for name in arguments.text("of")?.split('+') {
            match name {
                "md5" => hashes.md5 = true,
                "sha1" => hashes.sha1 = true,
                "sha256" => hashes.sha256 = true,
                "none" => {}
                other => return Err(format!("`hash`: of = `{other}` is none of md5, sha1, sha256, none")),
            }
        }
        Ok(Demand { hashes, ..Demand::default() })
    },
};

static MEASURE: Supplement = Supplement {
    name: "measure",
    help: "Measurements of flows: round-trip times, loss, windows.",
    arguments: &[
        Argument {
            name: "sample",
            help: "Length of running samples in seconds; 0 for none.",
            default: Some("0"),
        },
        Argument {
            name: "details",
            help: "Whether each packet, exchange and burst is emitted: yes or no.",
            default: Some("no"),
        },
    ],
    level: Level::Flow,
    demand: |arguments| {
        let sample: u64 = arguments.parse("sample")?;
        let details = arguments.choice("details", &[("yes", true), ("no", false)])?;
        let sample = sample.saturating_mul(1_000_000_000);
        let measure = Some(Measuring { sample, details, delays: false });
        Ok(Demand { measure, measured: true, ..Demand::default() })
    },
};

static RULES: Supplement = Supplement {
    name: "rules",
    help: "Alerts of the rules of the run.",
    arguments: &[],
    level: Level::Record,
    demand: |_| Ok(Demand::default()),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_wrong_arguments_are_named() {
        for supplement in SUPPLEMENTS {
            let name = supplement.name;
            assert!(supplement.help.ends_with('.'), "{name}");
            assert!(supplement.arguments.iter().all(|argument| argument.help.ends_with('.')), "{name}");
            assert!(crate::FUNCTIONS.iter().all(|function| function.name != name), "{name}");
            assert!(crate::Delivery::find(name).is_none(), "{name}");
            // The demand of rules is that of the run's.
            let demand = supplement.demand(&FunctionCall::new(name)).unwrap();
            assert_eq!(demand == Demand::default(), supplement.looks_with_rules(), "{name}");
        }
        let error = |call: FunctionCall| Supplement::find(&call.name).unwrap().demand(&call).unwrap_err();
        assert!(error(FunctionCall::new("hash").with("of", "crc")).contains("md5"));
        assert!(error(FunctionCall::new("measure").with("sample", "x")).contains("sample"));
    }
}
