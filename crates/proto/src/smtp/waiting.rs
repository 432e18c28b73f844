//! Commands that wait for replies, and what becomes of them when bytes are missing.

use super::Asked;
use crate::waiting::take_last;
use std::collections::VecDeque;
use weir_wire::Time;

/// Commands without a reply, in the order of their replies.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    commands: VecDeque<(Time, Asked)>,
    /// After a gap: how many of the first commands the next replies certainly belong to. `None` if no command or reply is
    /// missing.
    certain: Option<usize>,
    /// Whether a reply has arrived to which no command is known.
    has_passed: bool,
    /// Whether the client sends commands before the replies to those that wait.
    pipelines: bool,
}

/// Commands whose replies are lost, each with its time.
pub(super) type Lost = VecDeque<(Time, Asked)>;

/// A reply to which no command is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unmatched {
    /// No command waits.
    None,
    /// Bytes are missing, and the reply may belong to one of several commands.
    Doubtful,
}

impl Waiting {
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Adds a command and returns those whose replies are lost: a client that goes on after replies has got them.
    pub fn push(&mut self, asked: Asked, time: Time) -> Lost {
        let has_passed = std::mem::take(&mut self.has_passed);
        let lost = if self.certain.is_some() && has_passed { self.clear() } else { VecDeque::new() };
        self.pipelines &= !self.commands.is_empty();
        self.commands.push_back((time, asked));
        lost
    }

    /// Removes and returns all commands.
    pub fn clear(&mut self) -> Lost {
        (self.certain, self.has_passed) = (None, false);
        std::mem::take(&mut self.commands)
    }

    /// Puts the last command before all others, because its reply is already known.
    pub fn hasten_last(&mut self) -> bool {
        let last = self.commands.pop_back();
        self.certain = self.certain.map(|certain| certain + usize::from(last.is_some()));
        last.map(|last| self.commands.push_front(last)).is_some()
    }

    /// Removes and returns the command that a reply with this code belongs to. `lost` gets the commands before it whose
    /// replies are lost.
    pub fn answered(&mut self, code: u16, lost: &mut Lost) -> Result<Asked, Unmatched> {
        if self.certain == Some(0) {
            // Two codes name their command. The replies to all commands before it are lost.
            let is_named =
                |(_, asked): &(Time, Asked)| matches!((code, asked), (354, Asked::Data) | (334, Asked::Auth));
            let Some(named) = self.commands.iter().position(is_named) else {
                self.has_passed = true;
                return Err(Unmatched::Doubtful);
            };
            lost.extend(self.commands.drain(..named));
            self.certain = None;
        }
        self.pipelines |= self.commands.len() > 1;
        let Some((_, asked)) = self.commands.pop_front() else {
            self.has_passed = true;
            return Err(Unmatched::None);
        };
        self.certain = self.certain.map(|certain| certain.saturating_sub(1));
        Ok(asked)
    }

    /// Commands may be missing. If nothing waits and a reply has arrived, it was theirs.
    pub fn miss_commands(&mut self) {
        if self.commands.is_empty() && self.has_passed {
            self.certain = None;
        } else if self.certain.is_none() {
            self.certain = Some(self.commands.len());
        }
    }

    /// Replies may be missing. Returns the commands that they belong to.
    pub fn miss_replies(&mut self) -> Lost {
        let Some(last) = take_last(&mut self.commands, self.pipelines, |(time, _)| *time) else {
            self.certain = Some(0);
            return VecDeque::new();
        };
        let lost = self.clear();
        self.commands.push_back(last);
        lost
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let transactions = self.commands.iter().map(|(_, asked)| match asked {
            Asked::End(transaction) => transaction.memory() + size_of_val(transaction.as_ref()),
            _ => 0,
        });
        self.commands.capacity() * size_of::<(Time, Asked)>() + transactions.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that wait, sent at these times.
    fn waiting(commands: impl IntoIterator<Item = (u64, Asked)>) -> Waiting {
        let mut waiting = Waiting::default();
        for (time, asked) in commands {
            assert!(waiting.push(asked, Time(time)).is_empty());
        }
        waiting
    }

    fn answered(waiting: &mut Waiting, code: u16) -> Result<Asked, Unmatched> {
        waiting.answered(code, &mut Lost::new())
    }

    #[test]
    fn a_reply_behind_a_gap_answers_the_last_command_of_a_client_that_waits() {
        let mut waiting = waiting([(1, Asked::Mail), (2, Asked::Recipient)]);
        assert_eq!(waiting.miss_replies().len(), 1);
        assert!(matches!(answered(&mut waiting, 250), Ok(Asked::Recipient)));
        assert!(waiting.is_empty());
    }

    #[test]
    fn in_a_pipeline_only_the_code_names_the_command_behind_a_gap() {
        let mut waiting = waiting([(1, Asked::Mail), (1, Asked::Recipient), (1, Asked::Data)]);
        assert!(waiting.miss_replies().is_empty());
        assert!(matches!(answered(&mut waiting, 250), Err(Unmatched::Doubtful)));
        let mut lost = Lost::new();
        assert!(matches!(waiting.answered(354, &mut lost), Ok(Asked::Data)));
        assert_eq!(lost.len(), 2);
        assert!(waiting.push(Asked::Other, Time(2)).is_empty());
        assert!(matches!(answered(&mut waiting, 250), Ok(Asked::Other)));
    }

    #[test]
    fn replies_before_missing_commands_are_assigned_and_those_after_are_not() {
        let mut waiting = waiting([(1, Asked::Mail), (1, Asked::Recipient)]);
        waiting.miss_commands();
        assert!(waiting.push(Asked::Other, Time(1)).is_empty());
        assert!(matches!(answered(&mut waiting, 250), Ok(Asked::Mail)));
        assert!(matches!(answered(&mut waiting, 250), Ok(Asked::Recipient)));
        assert!(matches!(answered(&mut waiting, 250), Err(Unmatched::Doubtful)));
        // The client goes on after the replies: it has got them all.
        assert_eq!(waiting.push(Asked::Hello, Time(2)).len(), 1);
        assert!(matches!(answered(&mut waiting, 250), Ok(Asked::Hello)));
    }

    #[test]
    fn a_client_whose_missing_command_was_answered_waits() {
        let mut waiting = Waiting::default();
        assert!(matches!(answered(&mut waiting, 250), Err(Unmatched::None)));
        waiting.miss_commands();
        assert!(waiting.push(Asked::Mail, Time(1)).is_empty());
        assert!(matches!(answered(&mut waiting, 250), Ok(Asked::Mail)));
    }
}
