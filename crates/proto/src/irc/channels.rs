//! What is counted of the channels of a connection: how often each is joined and written to, and how often the connection is kept alive.
//!
//! Nothing of the text of a message is read. The counts leave in a record for each channel: at once after a quiet second, else with the
//! first counted message after a second, with every 256th, and at the end. A connection can thus neither make many records of few bytes
//! nor keep its counts to itself for its whole life.

use crate::{Kind, Out, Privacy, Table, field, record};
use std::ops::AddAssign;
use weir_wire::{Direction, Time};

/// Counts of a channel. It is no table of logs: only functions that name it see its records, see [`crate::REQUESTED`].
pub static IRC_CHANNEL: Table = Table {
    name: "irc_channel",
    help: "Messages of a connection in a channel since its last record.",
    zeek: "",
    eve: "",
    fields: &[
        field("channel", Kind::Text, "Name of the channel, its ASCII letters in lower case.")
            .privacy(Privacy::User),
        field("joins", Kind::Uint, "JOINs of the client that name the channel."),
        field("messages", Kind::Uint, "PRIVMSGs and NOTICEs to the channel, of the client and the server."),
        field("pings", Kind::Uint, "PINGs of both sides while the client is in the channel."),
        field("pongs", Kind::Uint, "PONGs of both sides while the client is in the channel."),
    ],
};

/// Maximum number of channels of a message, and of those that a connection keeps.
pub(super) const MAX_CHANNELS: usize = 32;
/// Maximum bytes of a name. Longer ones are cut.
const MAX_NAME: usize = 256;
/// Counted messages after which the counts leave.
const MANY: u32 = 256;
/// Nanoseconds after which the next counted message lets the counts leave.
const HOLD: u64 = 1_000_000_000;

/// What is counted of a channel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counts {
    joins: u64,
    messages: u64,
    pings: u64,
    pongs: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.joins += more.joins;
        self.messages += more.messages;
        self.pings += more.pings;
        self.pongs += more.pongs;
    }
}

/// A channel that the connection keeps.
struct Channel {
    name: Box<[u8]>,
    /// Whether the client is in it.
    is_joined: bool,
    /// What has not left yet.
    counts: Counts,
}

/// The channels of a connection.
#[derive(Default)]
pub(super) struct Channels {
    kept: Vec<Channel>,
    /// Counted messages since the counts left.
    held: u32,
    /// When they left.
    left: Option<Time>,
}

impl Channels {
    /// Counts a message. `rest` are the parameters of a command in upper case.
    pub fn message(
        &mut self,
        command: &[u8],
        rest: &[u8],
        direction: Direction,
        time: Time,
        out: &mut dyn Out,
    ) {
        if !out.takes(&IRC_CHANNEL) {
            return;
        }
        let is_client = direction == Direction::Forward;
        let named = || {
            let names = super::parameters(rest).next().unwrap_or_default().split(|byte| *byte == b',');
            names.take(MAX_CHANNELS).filter_map(name_of)
        };
        let is_counted = match command {
            b"JOIN" if is_client => {
                // `JOIN 0` leaves all channels (RFC 2812 3.2.1).
                if super::parameters(rest).next() == Some(b"0") {
                    self.kept.iter_mut().for_each(|channel| channel.is_joined = false);
                }
                let joins = Counts { joins: 1, ..Counts::default() };
                named().map(|name| self.count(&name, joins, true, time, out)).count() > 0
            }
            b"PART" if is_client => {
                named().for_each(|name| {
                    self.find(&name).into_iter().for_each(|channel| channel.is_joined = false);
                });
                false
            }
            b"PRIVMSG" | b"NOTICE" => {
                let messages = Counts { messages: 1, ..Counts::default() };
                // What the server passes on reaches those in the channel.
                named().map(|name| self.count(&name, messages, !is_client, time, out)).count() > 0
            }
            b"PING" => self.alive(Counts { pings: 1, ..Counts::default() }),
            b"PONG" => self.alive(Counts { pongs: 1, ..Counts::default() }),
            _ => false,
        };
        if is_counted {
            self.held += 1;
            let is_due = self.left.is_none_or(|left| time.0.saturating_sub(left.0) >= HOLD);
            if is_due || self.held >= MANY {
                self.leave(time, out);
            }
        }
    }

    /// Counts what all joined channels share. Returns whether there is one.
    fn alive(&mut self, more: Counts) -> bool {
        let joined = self.kept.iter_mut().filter(|channel| channel.is_joined);
        joined.map(|channel| channel.counts += more).count() > 0
    }

    fn find(&mut self, name: &[u8]) -> Option<&mut Channel> {
        self.kept.iter_mut().find(|channel| *channel.name == *name)
    }

    /// Counts a message of a channel. `enters`: it shows that the client is in it.
    fn count(&mut self, name: &[u8], more: Counts, enters: bool, time: Time, out: &mut dyn Out) {
        if let Some(channel) = self.find(name) {
            channel.is_joined |= enters;
            channel.counts += more;
            return;
        }
        if self.kept.len() == MAX_CHANNELS && self.kept.iter().any(|channel| !channel.is_joined) {
            self.leave(time, out);
        }
        // Without a place it is counted at once, and only what keeps the connection alive is not.
        if self.kept.len() == MAX_CHANNELS {
            return emit(name, more, time, out);
        }
        self.kept.push(Channel { name: name.into(), is_joined: enters, counts: more });
    }

    /// Emits all counts. Channels that the client is not in are forgotten.
    pub fn leave(&mut self, time: Time, out: &mut dyn Out) {
        for channel in &mut self.kept {
            let counts = std::mem::take(&mut channel.counts);
            if counts != Counts::default() {
                emit(&channel.name, counts, time, out);
            }
        }
        self.kept.retain(|channel| channel.is_joined);
        (self.held, self.left) = (0, Some(time));
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        let names = self.kept.iter().map(|channel| channel.name.len());
        self.kept.capacity() * size_of::<Channel>() + names.sum::<usize>()
    }
}

/// The name of a channel in the form that is counted; `None` for a nick, a server and what is no name. Names of channels begin with one
/// of four characters (RFC 2811 2.1), before which a message may have the sign of those in the channel that it is for.
fn name_of(target: &[u8]) -> Option<Vec<u8>> {
    let name = match target {
        [b'@' | b'%' | b'+' | b'~', rest @ ..] if rest.starts_with(b"#") || rest.starts_with(b"&") => rest,
        target => target,
    };
    let is_name = matches!(name, [b'#' | b'&' | b'+' | b'!', _, ..]);
    is_name.then(|| name.get(..MAX_NAME).unwrap_or(name).to_ascii_lowercase())
}

fn emit(name: &[u8], counts: Counts, time: Time, out: &mut dyn Out) {
    let Counts { joins, messages, pings, pongs } = counts;
    out.record(record!(
        IRC_CHANNEL,
        time,
        channel = name,
        joins = joins,
        messages = messages,
        pings = pings,
        pongs = pongs,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::Collected;
    use crate::talk::{Talk, Turn};
    use crate::{TCP, Value};
    use std::collections::BTreeMap;

    /// What a client and a server say in turn, by their direction, a millisecond apart.
    fn collected(said: &[(Direction, &[u8])], size: usize) -> Collected {
        let turns = said.iter().map(|(direction, data)| Turn::Data(*direction, data.to_vec())).collect();
        let talk = Talk { ip_proto: TCP, ports: [40_000, 6667], turns };
        talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect())
    }

    /// The sums of joins, messages, pings and pongs of each channel.
    fn sums(collected: &Collected) -> BTreeMap<Vec<u8>, [u64; 4]> {
        let mut sums: BTreeMap<Vec<u8>, [u64; 4]> = BTreeMap::new();
        for record in collected.records.iter().filter(|record| *record.table == IRC_CHANNEL) {
            let Value::Text(name) = record.get("channel") else { panic!("{record:?}") };
            let sum = sums.entry(name.to_vec()).or_default();
            for (sum, field) in sum.iter_mut().zip(["joins", "messages", "pings", "pongs"]) {
                let Value::Uint(number) = record.get(field) else { panic!("{record:?}") };
                *sum += number;
            }
        }
        sums
    }

    const LOGIN: &[u8] = b"NICK a\r\nUSER a 0 * :A\r\n";
    use Direction::{Forward, Reverse};

    fn of(said: &[(Direction, &[u8])]) -> BTreeMap<Vec<u8>, [u64; 4]> {
        let said: Vec<_> = std::iter::once(&(Forward, LOGIN)).chain(said).copied().collect();
        let whole = sums(&collected(&said, usize::MAX));
        for size in [1, 7, 100] {
            assert_eq!(sums(&collected(&said, size)), whole, "in pieces of {size}");
        }
        whole
    }

    fn expected<const N: usize>(rows: [(&str, [u64; 4]); N]) -> BTreeMap<Vec<u8>, [u64; 4]> {
        rows.map(|(name, counts)| (name.as_bytes().to_vec(), counts)).into()
    }

    #[test]
    fn messages_count_to_the_channels_that_they_name() {
        let found = of(&[
            (Forward, b"JOIN #One,&two key\r\nprivmsg #ONE,nick,#three :#four\r\nPING :x\r\n"),
            (Reverse, b":s PONG s :x\r\n:b!b@h PRIVMSG #one :JOIN #five\r\n:b!b@h JOIN #one\r\n"),
            (Reverse, b"PING :1\r\n@a=b :c NOTICE @&two :hi\r\n:s NOTICE a :text\r\n"),
            (Forward, b"PONG :1\r\nPART #one :bye\r\nPING :2\r\n"),
            (Reverse, b":s PONG s :2\r\n:s PRIVMSG #six :seen late\r\nPING :3\r\n"),
        ]);
        assert_eq!(
            found,
            expected([
                ("#one", [1, 2, 2, 2]),
                ("#three", [0, 1, 0, 0]),
                ("#six", [0, 1, 1, 0]),
                ("&two", [1, 1, 4, 3]),
            ])
        );
        // `JOIN 0` leaves all.
        let left = of(&[(Forward, b"JOIN #a,#b\r\nJOIN 0\r\nPING x\r\n")]);
        assert_eq!(left, expected([("#a", [1, 0, 0, 0]), ("#b", [1, 0, 0, 0])]));
    }

    #[test]
    fn what_is_no_channel_is_not_counted() {
        let lines: [&[u8]; 8] = [
            b"JOIN\r\nJOIN :\r\nJOIN #,&,+,!,x,0,,\r\n",
            b"PRIVMSG\r\nPRIVMSG nick :#a\r\nPRIVMSG # :x\r\n",
            b"JOINS #a\r\nJOI #a\r\n:#a\r\n: JOIN\r\n",
            b"PING\r\nPONG\r\n",
            b"%%% #a\r\n\xff\xfe #a\r\n",
            b"PART #a\r\nPART\r\n",
            b"@JOIN #a\r\n",
            b"TOPIC #a :JOIN #a\r\n",
        ];
        for line in lines {
            assert_eq!(of(&[(Forward, line)]), BTreeMap::new(), "{}", line.escape_ascii());
        }
    }

    /// Names are any bytes but those that end them; long ones are cut.
    #[test]
    fn names_are_bytes_of_a_limited_length() {
        let long = [b"JOIN #", [b'N'; 400].as_slice(), b"\r\n"].concat();
        let found = of(&[
            (Forward, b"JOIN #\x1b[2J\x1b]0;x\x07\r\n"),
            (Forward, "JOIN #Кириллица,#日本\r\n".as_bytes()),
            (Forward, b"JOIN #\xff\xfe\r\n"),
            (Forward, &long),
        ]);
        let cut = [b"#".as_slice(), &[b'n'; MAX_NAME - 1]].concat();
        let names: [&[u8]; 5] =
            [b"#\x1b[2j\x1b]0;x\x07", "#Кириллица".as_bytes(), "#日本".as_bytes(), b"#\xff\xfe", &cut];
        assert_eq!(found, names.map(|name| (name.to_vec(), [1, 0, 0, 0])).into());
    }

    /// Of more channels than a connection keeps, joins and messages count; memory has a limit.
    #[test]
    fn a_flood_of_channels_is_counted_within_limits() {
        let (mut channels, mut out) = (Channels::default(), Collected::default());
        let name = |n: u32| format!("#{n:0>300}");
        for n in 0..5_000 {
            channels.message(b"JOIN", name(n).as_bytes(), Forward, Time(5), &mut out);
            channels.message(b"PRIVMSG", name(n / 2).as_bytes(), Reverse, Time(5), &mut out);
            assert!(channels.memory() <= 64 * (size_of::<Channel>() + MAX_NAME));
        }
        channels.leave(Time(6), &mut out);
        // Cut names are equal.
        let all = sums(&out)
            .into_values()
            .fold([0; 4], |all: [u64; 4], more| std::array::from_fn(|at| all[at] + more[at]));
        assert_eq!(all, [5_000, 5_000, 0, 0]);
        let mut out = Collected::default();
        let mut channels = Channels::default();
        for n in 0..5_000 {
            let name = format!("#{n}");
            channels.message(b"JOIN", name.as_bytes(), Forward, Time(5), &mut out);
            channels.message(b"PART", name.as_bytes(), Forward, Time(5), &mut out);
            assert!(channels.kept.len() <= MAX_CHANNELS);
        }
        channels.leave(Time(6), &mut out);
        assert_eq!(sums(&out).len(), 5_000);
    }

    /// Pings of a client in all channels make few records, and a quiet connection keeps none back.
    #[test]
    fn records_are_few_and_soon() {
        let (mut channels, mut out) = (Channels::default(), Collected::default());
        let names: Vec<String> = (0..MAX_CHANNELS).map(|n| format!("#{n}")).collect();
        channels.message(b"JOIN", names.join(",").as_bytes(), Forward, Time(0), &mut out);
        assert_eq!(out.records.len(), MAX_CHANNELS, "at once");
        (0..MANY * 10).for_each(|_| channels.message(b"PING", b"", Forward, Time(1), &mut out));
        assert_eq!(out.records.len(), MAX_CHANNELS * 11);
        channels.message(b"PING", b"", Forward, Time(2), &mut out);
        assert_eq!(out.records.len(), MAX_CHANNELS * 11, "held");
        channels.message(b"PONG", b"", Reverse, Time(2 + HOLD), &mut out);
        assert_eq!(out.records.len(), MAX_CHANNELS * 12);
        assert_eq!(sums(&out)[b"#7".as_slice()], [1, 0, u64::from(MANY) * 10 + 1, 1]);
    }
}
