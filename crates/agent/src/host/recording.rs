//! A series of readings under way, and what is kept of it.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use serde_json::value::RawValue;

/// A thread that reads again and again until it is stopped.
pub struct Recording {
    /// Stops it.
    pub stop: Sender<()>,
    /// Gives what it kept.
    pub thread: JoinHandle<Kept>,
}

/// The newest readings, bounded in number and size.
pub struct Kept {
    keep: usize,
    limit_bytes: usize,
    size_bytes: usize,
    /// Oldest first.
    pub readings: VecDeque<Box<RawValue>>,
    /// How many were left out.
    pub dropped: u64,
}

impl Kept {
    /// Nothing yet, and never more than the newest `keep`.
    pub fn new(keep: usize) -> Self {
        Self::within(keep, SERIES_LIMIT_BYTES)
    }

    fn within(keep: usize, limit_bytes: usize) -> Self {
        Self { keep, limit_bytes, size_bytes: 0, readings: VecDeque::new(), dropped: 0 }
    }

    /// Keep one more; none: it could not be told.
    pub fn push(&mut self, reading: Option<Box<RawValue>>) {
        let Some(reading) = reading else {
            self.dropped += 1;
            return;
        };
        self.size_bytes += reading.get().len() + 1;
        self.readings.push_back(reading);
        while self.readings.len() > self.keep || self.size_bytes > self.limit_bytes {
            let Some(oldest) = self.readings.pop_front() else { return };
            self.size_bytes -= oldest.get().len() + 1;
            self.dropped += 1;
        }
    }
}

/// A series is answered in one line.
const SERIES_LIMIT_BYTES: usize = 15 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_after(keep: usize, limit_bytes: usize, readings: &[&str]) -> (Vec<String>, u64) {
        let mut kept = Kept::within(keep, limit_bytes);
        for reading in readings {
            kept.push(RawValue::from_string((*reading).to_owned()).ok());
        }
        (kept.readings.iter().map(|each| each.get().to_owned()).collect(), kept.dropped)
    }

    #[test]
    fn the_oldest_readings_go_when_there_are_too_many() {
        assert_eq!(kept_after(2, 100, &["1", "2", "3"]), (vec!["2".to_owned(), "3".to_owned()], 1));
    }

    #[test]
    fn the_oldest_readings_go_when_they_are_too_large() {
        assert_eq!(kept_after(9, 7, &["111", "222", "33"]), (vec!["222".to_owned(), "33".to_owned()], 1));
        assert_eq!(kept_after(9, 2, &["111"]), (vec![], 1));
    }
}
