//! Capture of a program's output: the first bytes are kept, and the rest is counted. The capture does no I/O.

use iolab_protocol::ErrorObject;

use crate::kernel::faults::Answer;

/// Maximum capture of one output stream that a controller may request, in bytes: three such captures fit into one line.
const CAPTURE_LIMIT_BYTES: usize = 4 << 20;

/// Maximum size of one output stream in a reply after JSON escaping, in bytes: two streams and the other fields fit
/// into one line.
const ESCAPED_LIMIT_BYTES: usize = 7 << 20;

/// Refuse a capture size whose text would not fit into a reply.
pub fn check_capture(capture_bytes: usize) -> Answer<()> {
    if capture_bytes <= CAPTURE_LIMIT_BYTES {
        return Ok(());
    }
    Err(ErrorObject::params(format!("'capture_bytes' is at most {CAPTURE_LIMIT_BYTES}"), capture_bytes))
}

/// The captured part of one output stream.
#[derive(Debug)]
pub struct Capture {
    keep_bytes: usize,
    kept: Vec<u8>,
    dropped_bytes: u64,
}

impl Capture {
    /// Create a capture of at most `keep_bytes` bytes.
    pub fn new(keep_bytes: usize) -> Self {
        Self { keep_bytes, kept: Vec::new(), dropped_bytes: 0 }
    }

    /// Add bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.keep_bytes - self.kept.len();
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        self.kept.extend_from_slice(kept);
        self.dropped_bytes += dropped.len() as u64;
    }

    /// Return the captured text and the number of dropped bytes. Invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> (String, u64) {
        self.text_within(ESCAPED_LIMIT_BYTES)
    }

    /// Return the first `limit` bytes as text.
    pub fn beginning(&self, limit: usize) -> String {
        String::from_utf8_lossy(&self.kept[..limit.min(self.kept.len())]).into_owned()
    }

    fn text_within(&self, escaped_limit_bytes: usize) -> (String, u64) {
        let (mut text, mut escaped_bytes, mut used_bytes) = (String::new(), 0, 0);
        for chunk in self.kept.utf8_chunks() {
            let valid = chunk.valid().chars().map(|character| (character, character.len_utf8()));
            let invalid =
                (!chunk.invalid().is_empty()).then_some((char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
            for (character, source_bytes) in valid.chain(invalid) {
                escaped_bytes += escaped_length(character);
                if escaped_bytes > escaped_limit_bytes {
                    return (text, self.dropped_bytes + (self.kept.len() - used_bytes) as u64);
                }
                text.push(character);
                used_bytes += source_bytes;
            }
        }
        (text, self.dropped_bytes)
    }
}

fn escaped_length(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\u{0}'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// A search for a text in a stream that arrives in parts.
#[derive(Debug)]
pub struct Search {
    wanted: Vec<u8>,
    tail: Vec<u8>,
    found: bool,
}

impl Search {
    /// Create a search for `wanted`; an empty text is found immediately.
    pub fn new(wanted: &str) -> Self {
        Self { wanted: wanted.as_bytes().to_vec(), tail: Vec::new(), found: wanted.is_empty() }
    }

    /// Search the next part of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.found {
            return;
        }
        self.tail.extend_from_slice(bytes);
        self.found = self.tail.windows(self.wanted.len()).any(|window| window == self.wanted);
        let unneeded = self.tail.len().saturating_sub(self.wanted.len() - 1);
        self.tail.drain(..unneeded);
    }

    /// Whether the text was found.
    pub fn found(&self) -> bool {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_output_bytes_are_kept_and_the_rest_is_counted() {
        let mut capture = Capture::new(5);
        capture.push(b"abc");
        capture.push(b"defg");
        capture.push(b"h");
        assert_eq!(capture.text(), ("abcde".to_owned(), 3));
    }

    #[test]
    fn invalid_utf_8_bytes_are_replaced() {
        let mut capture = Capture::new(10);
        capture.push(b"a\xffb\xc3");
        assert_eq!(capture.text(), ("a\u{fffd}b\u{fffd}".to_owned(), 0));
    }

    #[test]
    fn output_whose_escaped_form_is_too_long_is_truncated_and_counted() {
        let mut capture = Capture::new(10);
        capture.push(b"a\x01\x02b");
        assert_eq!(capture.text_within(8), ("a\u{1}".to_owned(), 2));
    }

    #[test]
    fn searched_text_is_found_across_chunk_boundaries() {
        let mut search = Search::new("ready");
        for part in ["rea", "d", "rread"] {
            search.push(part.as_bytes());
            assert!(!search.found());
        }
        search.push(b"y!");
        assert!(search.found());
    }
}
