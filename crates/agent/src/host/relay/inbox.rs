//! Parser of the bytes that a relay receives, which returns messages and noise (all other lines). The parser does no
//! I/O; the clock is an argument.

use iolab_protocol::relay::Message;
use iolab_protocol::{Frame, LineSplitter};

/// One received item.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A JSON object on a separate line.
    Message(Message),
    /// The start of a line that is not a JSON object, and the number of lines discarded before it.
    Noise {
        /// Text of the line; invalid bytes are replaced.
        text: String,
        /// Number of discarded lines.
        dropped: u64,
    },
}

/// Parser that splits bytes into lines and distinguishes messages from noise.
pub struct Inbox {
    splitter: LineSplitter,
    gate: NoiseGate,
}

impl Inbox {
    /// Create an inbox that starts at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        Self { splitter: LineSplitter::new(LONGEST_LINE_BYTES), gate: NoiseGate::new(now_ns) }
    }

    /// Parse `bytes` that were received at `now_ns`.
    pub fn push(&mut self, bytes: &[u8], now_ns: u64, mut hear: impl FnMut(Heard)) {
        let gate = &mut self.gate;
        self.splitter.push(bytes, |frame| {
            if let Some(heard) = judge(gate, &frame, now_ns) {
                hear(heard);
            }
        });
    }

    /// Return the last line, if it is incomplete, and the number of noise lines discarded since the last reported noise
    /// line.
    pub fn finish(&mut self, now_ns: u64) -> (Option<Heard>, u64) {
        let rest = Frame::Line(self.splitter.take_rest());
        let heard = judge(&mut self.gate, &rest, now_ns);
        (heard, self.gate.dropped)
    }
}

fn judge(gate: &mut NoiseGate, frame: &Frame, now_ns: u64) -> Option<Heard> {
    let line = match frame {
        Frame::Line(line) => {
            if let Some(message) = Message::read(line) {
                return Some(Heard::Message(message));
            }
            line.trim_ascii_end()
        }
        Frame::TooLong(beginning) => beginning,
    };
    if line.is_empty() {
        return None;
    }
    let dropped = gate.admit(now_ns)?;
    let text = String::from_utf8_lossy(&line[..line.len().min(NOISE_BYTES)]).into_owned();
    Some(Heard::Noise { text, dropped })
}

/// A rate limit for noise lines that counts the discarded lines.
struct NoiseGate {
    lines: u64,
    since_ns: u64,
    dropped: u64,
}

impl NoiseGate {
    fn new(now_ns: u64) -> Self {
        Self { lines: MOST_AT_ONCE, since_ns: now_ns, dropped: 0 }
    }

    /// Return the number of lines discarded before this one; `None` if this line is discarded too.
    fn admit(&mut self, now_ns: u64) -> Option<u64> {
        let earned = now_ns.saturating_sub(self.since_ns) / NS_PER_LINE;
        self.since_ns += earned * NS_PER_LINE;
        self.lines = self.lines.saturating_add(earned).min(MOST_AT_ONCE);
        if self.lines == 0 {
            self.dropped += 1;
            return None;
        }
        self.lines -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Maximum length of a line in bytes. Such a line and the envelope of `relay.received` (at most 200 bytes) fit into a
/// line of the protocol.
const LONGEST_LINE_BYTES: usize = 16_777_000;
const NOISE_BYTES: usize = 4096;
/// Burst of the rate limit in lines; a kernel panic prints about a hundred lines.
const MOST_AT_ONCE: u64 = 256;
/// Rate of 64 lines per second, as ns per line.
const NS_PER_LINE: u64 = 1_000_000_000 / 64;

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
