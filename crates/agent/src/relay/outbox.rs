//! What waits to be written to a relay: in order, bounded. No I/O.

use std::collections::VecDeque;

/// Lines that wait.
#[derive(Default)]
pub struct Outbox {
    lines: VecDeque<(Ticket, Vec<u8>)>,
    /// How much of the first line is written [bytes].
    written: usize,
    size_bytes: usize,
    last: Ticket,
}

/// A line's number.
pub type Ticket = u64;

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    /// It will be written.
    Taken,
    /// It is too far behind to count as taken.
    Waits(Ticket),
    /// There is no room at all.
    Full,
}

impl Outbox {
    /// Put `line`, with its line feed, behind the others.
    pub fn offer(&mut self, line: Vec<u8>) -> Offer {
        if !self.lines.is_empty() && self.size_bytes + line.len() > MOST_BYTES {
            return Offer::Full;
        }
        self.last += 1;
        self.size_bytes += line.len();
        self.lines.push_back((self.last, line));
        if self.counts_as_taken(self.last) {
            Offer::Taken
        } else {
            Offer::Waits(self.last)
        }
    }

    /// Whether the line is written, being written or among the next bytes to be.
    pub fn counts_as_taken(&self, ticket: Ticket) -> bool {
        let mut before = 0;
        for (place, (each, line)) in self.lines.iter().enumerate() {
            before += line.len();
            if *each == ticket {
                return place == 0 || before <= TAKEN_BYTES;
            }
        }
        true
    }

    /// Take a line back; false when it is written or being written.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some(place) = self.lines.iter().position(|(each, _)| *each == ticket) else { return false };
        if place == 0 && self.written > 0 {
            return false;
        }
        if let Some((_, line)) = self.lines.remove(place) {
            self.size_bytes -= line.len();
        }
        true
    }

    /// What is to be written next; empty when nothing waits.
    pub fn next(&self) -> &[u8] {
        self.lines.front().map_or(&[], |(_, line)| &line[self.written..])
    }

    /// `length` bytes of it are written.
    pub fn advance(&mut self, length: usize) {
        self.written += length;
        if let Some((_, line)) = self.lines.front().filter(|(_, line)| self.written >= line.len()) {
            self.size_bytes -= line.len();
            self.lines.pop_front();
            self.written = 0;
        }
    }
}

/// What a relay holds of lines that count as taken.
pub const TAKEN_BYTES: usize = 16 << 20;
const MOST_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mebibytes: usize) -> Vec<u8> {
        vec![b'x'; mebibytes << 20]
    }

    #[test]
    fn lines_are_written_in_order_and_in_parts() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.offer(b"abc\n".to_vec()), Offer::Taken);
        assert_eq!(outbox.offer(b"d\n".to_vec()), Offer::Taken);
        assert_eq!(outbox.next(), b"abc\n");
        outbox.advance(3);
        assert_eq!(outbox.next(), b"\n");
        outbox.advance(1);
        assert_eq!(outbox.next(), b"d\n");
        outbox.advance(2);
        assert_eq!((outbox.next(), outbox.size_bytes), (&b""[..], 0));
    }

    #[test]
    fn what_is_far_behind_waits_and_can_be_taken_back() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.offer(line(16)), Offer::Taken);
        assert_eq!(outbox.offer(line(16)), Offer::Waits(2));
        assert_eq!(outbox.offer(line(16)), Offer::Waits(3));
        assert_eq!(outbox.offer(line(16)), Offer::Waits(4));
        assert_eq!(outbox.offer(line(1)), Offer::Full);
        assert!(outbox.withdraw(3));
        assert!(!outbox.withdraw(3));
        outbox.advance(1);
        assert!(!outbox.withdraw(1));
        assert!(!outbox.counts_as_taken(2));
        outbox.advance((16 << 20) - 1);
        assert!(outbox.counts_as_taken(1) && outbox.counts_as_taken(2) && !outbox.counts_as_taken(4));
    }

    #[test]
    fn a_line_of_any_length_is_taken_when_nothing_waits() {
        assert_eq!(Outbox::default().offer(line(65)), Offer::Taken);
    }
}
