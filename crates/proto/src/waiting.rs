//! Commands that wait for their replies, after a gap in the replies.

use std::collections::VecDeque;
use weir_wire::Time;

/// Takes the last of the commands that wait, if the next reply belongs to it, whichever replies were lost before: a client that waits
/// for each reply has got those to all commands but its last. `None` for a client that `pipelines`, or sent several commands at
/// one time: all of them still wait.
pub(crate) fn take_last<C>(
    waiting: &mut VecDeque<C>,
    pipelines: bool,
    time: impl Fn(&C) -> Time,
) -> Option<C> {
    let mut times = waiting.iter().rev().map(time);
    let (last, before) = (times.next()?, times.next());
    let waits = !pipelines && before.is_none_or(|before| before != last);
    if waits { waiting.pop_back() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_command_is_taken_only_if_the_client_waits() {
        let take = |times: &[u64], pipelines: bool| {
            let mut waiting: VecDeque<u64> = times.iter().copied().collect();
            (take_last(&mut waiting, pipelines, |time| Time(*time)), waiting.len())
        };
        assert_eq!(take(&[], false), (None, 0));
        assert_eq!(take(&[1], false), (Some(1), 0));
        assert_eq!(take(&[1, 2], false), (Some(2), 1));
        // No command is lost where none is taken.
        assert_eq!(take(&[1, 2, 2], false), (None, 3));
        assert_eq!(take(&[1, 2], true), (None, 2));
    }
}
