//! A series of readings in progress, and its stored readings.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use serde_json::value::RawValue;

/// A thread that reads repeatedly until it is stopped.
pub struct Recording {
    /// Channel that stops the thread.
    pub stop: Sender<()>,
    /// The thread, which returns the stored readings.
    pub thread: JoinHandle<Kept>,
}

/// The newest readings, limited in number and size.
pub struct Kept {
    keep: usize,
    limit_bytes: usize,
    size_bytes: usize,
    /// Stored readings, oldest first.
    pub readings: VecDeque<Box<RawValue>>,
    /// Number of discarded readings.
    pub dropped: u64,
}

impl Kept {
    /// Create an empty store for the newest `keep` readings.
    pub fn new(keep: usize) -> Self {
        Self::within(keep, SERIES_LIMIT_BYTES)
    }

    fn within(keep: usize, limit_bytes: usize) -> Self {
        Self { keep, limit_bytes, size_bytes: 0, readings: VecDeque::new(), dropped: 0 }
    }

    /// Store a reading; `None` is a reading that could not be serialized and counts as discarded.
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

/// Maximum size of a series in bytes; a series is sent as one line.
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
    fn oldest_readings_are_dropped_beyond_the_count_limit() {
        assert_eq!(kept_after(2, 100, &["1", "2", "3"]), (vec!["2".to_owned(), "3".to_owned()], 1));
    }

    #[test]
    fn oldest_readings_are_dropped_beyond_the_size_limit() {
        assert_eq!(kept_after(9, 7, &["111", "222", "33"]), (vec!["222".to_owned(), "33".to_owned()], 1));
        assert_eq!(kept_after(9, 2, &["111"]), (vec![], 1));
    }
}
