//! Cut a stream of bytes into lines of bounded length. Reads nothing itself: bytes are pushed in.

/// The longest line, without its newline (bytes).
pub const LINE_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// What a stream is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole line without its newline.
    Line(Vec<u8>),
    /// A line was longer than the limit; it is skipped to its end. Given once, when the limit is passed, with the first bytes.
    TooLong(Vec<u8>),
}

/// Collects bytes until a line is whole; never holds more than one line of the limit's length.
#[derive(Debug)]
pub struct LineSplitter {
    limit_bytes: usize,
    line: Vec<u8>,
    skipping: bool,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new(LINE_LIMIT_BYTES)
    }
}

impl LineSplitter {
    /// A splitter for lines of at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, line: Vec::new(), skipping: false }
    }

    /// Take `bytes` from the stream and hand every frame they complete to `receive`, in order.
    pub fn push(&mut self, bytes: &[u8], mut receive: impl FnMut(Frame)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.append(&rest[..end], &mut receive);
            rest = &rest[end + 1..];
            if !std::mem::take(&mut self.skipping) {
                receive(Frame::Line(std::mem::take(&mut self.line)));
            }
        }
        self.append(rest, &mut receive);
    }

    /// What came of the line that is not whole yet.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    fn append(&mut self, part: &[u8], receive: &mut impl FnMut(Frame)) {
        if self.skipping {
            return;
        }
        if self.line.len() + part.len() > self.limit_bytes {
            let mut beginning = std::mem::take(&mut self.line);
            beginning.extend_from_slice(&part[..part.len().min(BEGINNING_BYTES)]);
            // As many as there are for certain when the limit is passed, however the stream is cut.
            beginning.truncate(BEGINNING_BYTES.min(self.limit_bytes + 1));
            beginning.shrink_to_fit();
            self.skipping = true;
            receive(Frame::TooLong(beginning));
        } else {
            self.line.extend_from_slice(part);
        }
    }
}

/// How much of a line that is too long is kept (bytes).
const BEGINNING_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(splitter: &mut LineSplitter, bytes: &[u8]) -> Vec<Frame> {
        let mut seen = Vec::new();
        splitter.push(bytes, |frame| seen.push(frame));
        seen
    }

    fn line(text: &str) -> Frame {
        Frame::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn a_line_may_come_in_any_number_of_parts() {
        let mut splitter = LineSplitter::new(8);
        assert_eq!(frames(&mut splitter, b"ab"), []);
        assert_eq!(frames(&mut splitter, b"c\nde\n\nf"), [line("abc"), line("de"), line("")]);
        assert_eq!(frames(&mut splitter, b"\n"), [line("f")]);
    }

    #[test]
    fn a_line_of_exactly_the_limit_passes() {
        assert_eq!(frames(&mut LineSplitter::new(3), b"abc\n"), [line("abc")]);
    }

    #[test]
    fn a_longer_line_is_told_once_and_skipped_to_its_end() {
        let mut splitter = LineSplitter::new(3);
        assert_eq!(frames(&mut splitter, b"abcd"), [Frame::TooLong(b"abcd".to_vec())]);
        assert_eq!(frames(&mut splitter, b"efghijkl"), []);
        assert_eq!(frames(&mut splitter, b"mn\nok\n"), [line("ok")]);
    }
}
