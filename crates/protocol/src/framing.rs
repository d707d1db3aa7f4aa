//! Split a byte stream into lines of bounded length. The caller reads the stream and passes the bytes.

/// Maximum line length, without the newline (bytes).
pub const LINE_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// An element of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A complete line without its newline.
    Line(Vec<u8>),
    /// A line exceeded the limit and is skipped to its end. Returned once, when the limit is exceeded, with the line's
    /// first bytes.
    TooLong(Vec<u8>),
}

/// Collect bytes until a line is complete; the buffer never exceeds the maximum line length.
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
    /// Create a splitter for lines of at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, line: Vec::new(), skipping: false }
    }

    /// Add `bytes` from the stream, and pass each completed frame to `receive`, in order.
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

    /// Return the bytes of the incomplete line.
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
            // This many bytes are available when the limit is exceeded, however the stream is split.
            beginning.truncate(BEGINNING_BYTES.min(self.limit_bytes + 1));
            beginning.shrink_to_fit();
            self.skipping = true;
            receive(Frame::TooLong(beginning));
        } else {
            self.line.extend_from_slice(part);
        }
    }
}

/// Number of bytes that are kept of a line that is too long.
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
    fn line_may_arrive_in_any_number_of_parts() {
        let mut splitter = LineSplitter::new(8);
        assert_eq!(frames(&mut splitter, b"ab"), []);
        assert_eq!(frames(&mut splitter, b"c\nde\n\nf"), [line("abc"), line("de"), line("")]);
        assert_eq!(frames(&mut splitter, b"\n"), [line("f")]);
    }

    #[test]
    fn line_of_exactly_the_maximum_length_is_accepted() {
        assert_eq!(frames(&mut LineSplitter::new(3), b"abc\n"), [line("abc")]);
    }

    #[test]
    fn longer_line_is_reported_once_and_skipped() {
        let mut splitter = LineSplitter::new(3);
        assert_eq!(frames(&mut splitter, b"abcd"), [Frame::TooLong(b"abcd".to_vec())]);
        assert_eq!(frames(&mut splitter, b"efghijkl"), []);
        assert_eq!(frames(&mut splitter, b"mn\nok\n"), [line("ok")]);
    }
}
