//! Flows made by hand, and the rules that match them and that do not.

mod addresses;
mod buffers;
mod calls;
mod changes;
mod counts;
mod events;
mod files;
mod flows;
mod generated;
mod hostile;
mod limits;
mod messages;
mod packets;
mod streams;
mod verdicts;
mod watch;
mod work;
