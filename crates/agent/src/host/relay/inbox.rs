//! What comes over a relay: bytes in, messages and noise out. No I/O; the clock is an argument.

use iolab_protocol::relay::Message;
use iolab_protocol::{Frame, LineSplitter};

/// Something that came.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A JSON object on a line of its own.
    Message(Message),
    /// The beginning of another line, and how many were left out before it.
    Noise {
        /// As text; bad bytes are replaced.
        text: String,
        /// Lines left out.
        dropped: u64,
    },
}

/// Makes lines of bytes and tells messages from noise.
pub struct Inbox {
    splitter: LineSplitter,
    gate: NoiseGate,
}

impl Inbox {
    /// An inbox that begins at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        Self { splitter: LineSplitter::new(LONGEST_LINE_BYTES), gate: NoiseGate::new(now_ns) }
    }

    /// Take `bytes` that came at `now_ns`.
    pub fn push(&mut self, bytes: &[u8], now_ns: u64, mut hear: impl FnMut(Heard)) {
        let gate = &mut self.gate;
        self.splitter.push(bytes, |frame| {
            if let Some(heard) = judge(gate, &frame, now_ns) {
                hear(heard);
            }
        });
    }

    /// The line that came last, if it was not ended, and how many lines of noise were left out since the last that was passed on.
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

/// Lets a bounded number of lines through and counts the others.
struct NoiseGate {
    lines: u64,
    since_ns: u64,
    dropped: u64,
}

impl NoiseGate {
    fn new(now_ns: u64) -> Self {
        Self { lines: MOST_AT_ONCE, since_ns: now_ns, dropped: 0 }
    }

    /// How many lines were left out before this one, if this one may pass.
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

/// With the envelope of `relay.received` (at most 200 bytes) it fits into a line of the protocol.
const LONGEST_LINE_BYTES: usize = 16_777_000;
const NOISE_BYTES: usize = 4096;
/// A kernel's last words are about a hundred lines.
const MOST_AT_ONCE: u64 = 256;
/// 64 lines per second.
const NS_PER_LINE: u64 = 1_000_000_000 / 64;

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
