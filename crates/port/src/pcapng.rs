//! Writer of pcapng captures with nanosecond timestamps: section header, one interface, one enhanced packet block per
//! frame.

use std::io::{self, Write};

use iolab_sys::clock::RealtimeOffset;

use crate::observed::{Observe, Way};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_EPB_FLAGS: u16 = 2;

/// A capture in progress. Use a buffered output: each frame is one write.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    offset: RealtimeOffset,
    block: Vec<u8>,
    frames: u64,
    failed: Option<io::Error>,
}

impl<W: Write> PcapngWriter<W> {
    /// Start a capture of one interface; `offset` converts monotonic timestamps to the wall clock.
    ///
    /// # Errors
    /// Fails if the header cannot be written.
    pub fn new(out: W, interface: &str, offset: RealtimeOffset) -> io::Result<Self> {
        let mut this = Self { out, offset, block: Vec::with_capacity(2048), frames: 0, failed: None };
        this.begin(SECTION_HEADER);
        this.words(&[BYTE_ORDER_MAGIC]);
        this.block.extend_from_slice(&1u16.to_le_bytes());
        this.block.extend_from_slice(&0u16.to_le_bytes());
        // The section length is unknown until the end.
        this.words(&[u32::MAX, u32::MAX]);
        this.end()?;
        this.begin(INTERFACE_DESCRIPTION);
        this.words(&[u32::from(LINKTYPE_ETHERNET), 0]);
        this.option(OPTION_IF_NAME, interface.as_bytes());
        this.option(OPTION_IF_TSRESOL, &[9]);
        this.option(0, &[]);
        this.end()?;
        Ok(this)
    }

    /// Write one frame with its timestamp on `CLOCK_MONOTONIC` (ns).
    ///
    /// # Errors
    /// Fails if the frame cannot be written.
    pub fn write(&mut self, way: Way, bytes: &[u8], stamp_ns: u64) -> io::Result<()> {
        self.write_beginning(way, bytes, bytes.len(), stamp_ns)
    }

    /// Write a truncated frame with an original length of `whole_bytes`.
    ///
    /// # Errors
    /// Fails if the frame cannot be written.
    pub fn write_beginning(
        &mut self,
        way: Way,
        bytes: &[u8],
        whole_bytes: usize,
        stamp_ns: u64,
    ) -> io::Result<()> {
        let time = stamp_ns.saturating_add_signed(self.offset.offset_ns).to_le_bytes();
        let [length, whole] =
            [bytes.len(), whole_bytes].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        self.begin(ENHANCED_PACKET);
        self.words(&[0]);
        self.block.extend_from_slice(&time[4..]);
        self.block.extend_from_slice(&time[..4]);
        self.words(&[length, whole]);
        self.padded(bytes);
        let flags: u32 = if way == Way::In { 1 } else { 2 };
        self.option(OPTION_EPB_FLAGS, &flags.to_le_bytes());
        self.option(0, &[]);
        self.end()?;
        self.frames += 1;
        Ok(())
    }

    /// Finish the capture; return the output and the number of frames.
    ///
    /// # Errors
    /// Returns the first error while frames were observed, or the error of the last flush.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.out.flush()?;
        Ok((self.out, self.frames))
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.words(&[kind, 0]);
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.block.extend_from_slice(&word.to_le_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(0);
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&length.to_le_bytes());
        self.padded(&value[..usize::from(length)]);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.block.len() + 4).unwrap_or(u32::MAX);
        self.words(&[length]);
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.out.write_all(&self.block)
    }
}

impl<W: Write + Send> Observe for PcapngWriter<W> {
    fn frame(&mut self, way: Way, bytes: &[u8], stamp_ns: u64) {
        if self.failed.is_none() {
            self.failed = self.write(way, bytes, stamp_ns).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks have the layout of the format's specification, byte by byte.
    #[test]
    fn pcapng_blocks_have_the_specified_layout() {
        let offset = RealtimeOffset { offset_ns: 1_700_000_000_000_000_000, error_ns: 0 };
        let mut writer = PcapngWriter::new(Vec::new(), "east", offset).unwrap();
        let head = writer.out.len();
        writer.write(Way::Out, b"abcde", 42).unwrap();
        let (bytes, frames) = writer.finish().unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(
            (frames, word(0), word(4), word(8), word(24)),
            (1, SECTION_HEADER, 28, BYTE_ORDER_MAGIC, 28)
        );
        assert_eq!((word(28), word(32), word(36), word(40)), (1, 40, 1, 0));
        let packet = &bytes[head..];
        assert_eq!((word(head), word(head + 4), packet.len()), (6, 52, 52));
        let time = u64::from(word(head + 12)) << 32 | u64::from(word(head + 16));
        assert_eq!((time, word(head + 20), word(head + 24)), (1_700_000_000_000_000_042, 5, 5));
        assert_eq!(&packet[28..36], b"abcde\0\0\0");
        assert_eq!(
            (word(head + 36), word(head + 40), word(head + 44), word(head + 48)),
            (0x0004_0002, 2, 0, 52)
        );
    }
}
