//! A queue ordered by time; items with equal times keep their insertion order.

use std::collections::VecDeque;

use crate::time::Nanos;

/// A queue in time order. Insertion of nearly ordered items is cheap.
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
    /// Create a queue with room for `entries` items before it reallocates.
    pub fn with_capacity(entries: usize) -> Self {
        Self { entries: VecDeque::with_capacity(entries) }
    }

    /// Insert an item at its time.
    pub fn insert(&mut self, at: Nanos, thing: T) {
        if self.entries.back().is_none_or(|(last, _)| *last <= at) {
            return self.entries.push_back((at, thing));
        }
        let place = self.entries.partition_point(|(other, _)| *other <= at);
        self.entries.insert(place, (at, thing));
    }

    /// Return the earliest time.
    pub fn due(&self) -> Option<Nanos> {
        self.entries.front().map(|(at, _)| *at)
    }

    /// Remove and return the first item if its time is `now` or earlier.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        self.due().filter(|due| *due <= now)?;
        self.entries.pop_front()
    }

    /// Return the items whose times are `now` or earlier, in order.
    pub fn ready(&self, now: Nanos) -> impl Iterator<Item = &T> {
        self.entries.iter().take_while(move |(at, _)| *at <= now).map(|(_, thing)| thing)
    }

    /// Return item `index`, counted from the first.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index).map(|(_, thing)| thing)
    }

    /// Return the number of items.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the queue is empty.
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
        fn entries_are_popped_by_time_and_then_in_insertion_order(times in prop::collection::vec(0u64..50, 0..200)) {
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
