//! Queue of lines to be sent over a relay: ordered and limited in size, without I/O.

use std::collections::VecDeque;

/// The queue of lines.
#[derive(Default)]
pub struct Outbox {
    lines: VecDeque<Waiting>,
    /// Number of bytes of the first line that are already sent.
    written: usize,
    size_bytes: usize,
    last: Ticket,
    /// Position of the first line in the stream of all queued bytes, in bytes.
    begin: u64,
}

struct Waiting {
    ticket: Ticket,
    line: Vec<u8>,
    /// Position of the line's end in the stream of all queued bytes, in bytes.
    end: u64,
}

/// Number of a line.
pub type Ticket = u64;

/// Result of queueing a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    /// The line is accepted and will be sent.
    Taken,
    /// The line is queued, but too far back to count as accepted.
    Waits(Ticket),
    /// The queue is full.
    Full,
}

impl Outbox {
    /// Append `line`, including its line feed.
    pub fn offer(&mut self, line: Vec<u8>) -> Offer {
        if !self.lines.is_empty() && self.size_bytes + line.len() > MOST_BYTES {
            return Offer::Full;
        }
        self.last += 1;
        self.size_bytes += line.len();
        let end = self.begin + self.size_bytes as u64;
        self.lines.push_back(Waiting { ticket: self.last, line, end });
        if self.counts_as_taken(self.last) {
            Offer::Taken
        } else {
            Offer::Waits(self.last)
        }
    }

    /// Whether the line is sent, is being sent, or is within the next [`TAKEN_BYTES`] bytes.
    pub fn counts_as_taken(&self, ticket: Ticket) -> bool {
        let is_near = |place: usize| place == 0 || self.lines[place].end - self.begin <= TAKEN_BYTES as u64;
        self.find(ticket).is_none_or(is_near)
    }

    /// Withdraw a line. Return false if it is sent or being sent.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some(place) = self.find(ticket) else { return false };
        if place == 0 && self.written > 0 {
            return false;
        }
        if let Some(Waiting { line, .. }) = self.lines.remove(place) {
            self.size_bytes -= line.len();
            self.lines.range_mut(place..).for_each(|later| later.end -= line.len() as u64);
        }
        true
    }

    fn find(&self, ticket: Ticket) -> Option<usize> {
        self.lines.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// Return the bytes to send next; empty if the queue is empty.
    pub fn next(&self) -> &[u8] {
        self.lines.front().map_or(&[], |waiting| &waiting.line[self.written..])
    }

    /// Mark `length` bytes as sent.
    pub fn advance(&mut self, length: usize) {
        self.written += length;
        if let Some(first) = self.lines.front().filter(|first| self.written >= first.line.len()) {
            self.size_bytes -= first.line.len();
            self.begin = first.end;
            self.lines.pop_front();
            self.written = 0;
        }
    }
}

/// Maximum size of the lines that count as accepted, in bytes.
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
    fn queued_line_far_from_being_written_can_be_withdrawn() {
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
    fn million_short_lines_are_accepted_in_constant_time_each() {
        let mut outbox = Outbox::default();
        for _ in 0..1_000_000 {
            assert_eq!(outbox.offer(b"{}\n".to_vec()), Offer::Taken);
        }
        assert!(outbox.withdraw(2) && outbox.counts_as_taken(1_000_000));
        assert_eq!(outbox.lines.back().unwrap().end, 2_999_997);
    }

    #[test]
    fn line_of_any_length_is_accepted_by_an_empty_outbox() {
        assert_eq!(Outbox::default().offer(line(65)), Offer::Taken);
    }
}
