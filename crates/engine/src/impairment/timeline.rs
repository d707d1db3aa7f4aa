//! Things by their times: first the earliest, and of one time the one that was put there first.

use std::collections::VecDeque;

use crate::time::Nanos;

/// A queue in the order of time. What comes nearly in order costs nearly nothing to put there.
#[derive(Debug)]
pub struct Timeline<T> {
    entries: VecDeque<(Nanos, T)>,
}

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

impl<T> Timeline<T> {
    /// One with room for so many before it takes more memory.
    pub fn with_capacity(entries: usize) -> Self {
        Self { entries: VecDeque::with_capacity(entries) }
    }

    /// Put a thing at its time.
    pub fn insert(&mut self, at: Nanos, thing: T) {
        if self.entries.back().is_none_or(|(last, _)| *last <= at) {
            return self.entries.push_back((at, thing));
        }
        let place = self.entries.partition_point(|(other, _)| *other <= at);
        self.entries.insert(place, (at, thing));
    }

    /// The first time.
    pub fn due(&self) -> Option<Nanos> {
        self.entries.front().map(|(at, _)| *at)
    }

    /// Take the first thing out if its time is `now` or before.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        self.due().filter(|due| *due <= now)?;
        self.entries.pop_front()
    }

    /// The things whose times are `now` or before, in order.
    pub fn ready(&self, now: Nanos) -> impl Iterator<Item = &T> {
        self.entries.iter().take_while(move |(at, _)| *at <= now).map(|(_, thing)| thing)
    }

    /// Thing `index` from the first.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index).map(|(_, thing)| thing)
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn things_come_out_by_time_and_then_as_they_were_put(times in prop::collection::vec(0u64..50, 0..200)) {
            let mut timeline = Timeline::default();
            for (place, &at) in times.iter().enumerate() {
                timeline.insert(Nanos(at), place);
            }
            let mut expected: Vec<_> = times.iter().enumerate().map(|(place, &at)| (Nanos(at), place)).collect();
            expected.sort_by_key(|(at, _)| *at);
            prop_assert_eq!(timeline.ready(Nanos(25)).count(), expected.iter().filter(|(at, _)| at.0 <= 25).count());
            let popped: Vec<_> = std::iter::from_fn(|| timeline.pop(Nanos(100))).collect();
            prop_assert_eq!(popped, expected);
        }
    }
}
