//! The binary form of answers: their labels, and the outline of a plan.

use super::{Binary, Bytes, DecodeError, check};
use crate::{Answer, AnswerLabel, Outline, Owner, SubscriptionId};
use std::sync::Arc;

impl Binary for AnswerLabel {
    fn write(&self, to: &mut Vec<u8>) {
        // The judges are at the end of the snapshot. Answers of clients are taken out before.
        let Self { subscription, chart, function, interval, outputs, owner: _, judges: _ } = self;
        subscription.write(to);
        chart.write(to);
        function.write(to);
        interval.write(to);
        // In the first versions no name meant all outputs; a name that no output has means none.
        let names =
            outputs.as_ref().map(|names| if names.is_empty() { vec![String::new()] } else { names.clone() });
        names.unwrap_or_default().write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            subscription: Binary::read(from)?,
            chart: Binary::read(from)?,
            function: Binary::read(from)?,
            interval: Binary::read(from)?,
            outputs: {
                let mut names = Vec::<String>::read(from)?;
                let is_all = names.is_empty();
                names.retain(|name| !name.is_empty());
                (!is_all).then_some(names)
            },
            owner: Owner::default(),
            judges: Vec::new(),
        })
    }
}

impl Binary for SubscriptionId {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        u32::read(from).map(SubscriptionId)
    }
}

impl Binary for Answer {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { id, label, reading, nanoseconds } = self;
        id.write(to);
        label.write(to);
        reading.write(to);
        nanoseconds.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: Binary::read(from)?,
            label: Arc::new(Binary::read(from)?),
            reading: Binary::read(from)?,
            nanoseconds: from.count()?,
        })
    }
}

/// The answers in the order of the plan, each with whether it shares the cost of counting.
impl Binary for Outline {
    fn write(&self, to: &mut Vec<u8>) {
        self.plan.write(to);
        let listed = self.listed();
        listed.len().write(to);
        for (answer, is_counted) in listed {
            answer.write(to);
            to.push(u8::from(is_counted));
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let plan = Binary::read(from)?;
        let length = from.length()?;
        let mut listed = Vec::new();
        for _ in 0..length {
            listed.push((Answer::read(from)?, from.byte()? != 0));
        }
        let outline = Outline::new(plan, listed);
        check(outline.answers().map(|(id, _)| id).is_sorted_by(|one, next| one < next), "order of answers")?;
        Ok(outline)
    }
}
