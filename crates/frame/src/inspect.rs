//! Tell received frames apart: ours, of another trial, damaged, or foreign.

use crate::locate::{locate, Located};
use crate::stamp::{only_tag_is_damaged, written_tag, Stamp, STAMP_BYTES};

/// How much of a frame is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// Lengths, IPv4 header checksum, stamp, and the checksum of the segment over the whole payload.
    #[default]
    Whole,
    /// All but the segment's checksum: cheaper for large frames; damage behind the stamp goes unseen.
    HeadersAndStamp,
}

/// How a frame of ours was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// The stamp's CRC does not hold.
    Stamp,
    /// The stamp holds, but a header is wrong or the frame was cut short.
    Headers,
    /// The stamp and the headers hold, but the segment's checksum does not.
    Payload,
}

/// What a frame turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// A whole frame of this trial and direction.
    Ours(Stamp),
    /// A whole frame of the engine, of another trial or direction: a straggler.
    OtherTag(Stamp),
    /// A frame of this trial that was damaged.
    Corrupted(Corruption),
    /// Not a frame of the engine: ARP, neighbour discovery, somebody else's traffic.
    Foreign,
}

/// Recognises the frames of one trial and direction.
#[derive(Debug, Clone, Copy)]
pub struct Inspector {
    tag: u16,
    stamp_offset: usize,
    check: Check,
}

impl Inspector {
    /// Recognise frames stamped with `tag`. `stamp_offset` is where they carry the stamp when sent
    /// ([`crate::FrameTemplate::stamp_offset`]): it is looked at when the headers no longer lead there.
    pub const fn new(tag: u16, stamp_offset: usize, check: Check) -> Self {
        Self { tag, stamp_offset, check }
    }

    /// Say what `frame` (without FCS) is.
    #[inline]
    pub fn inspect(&self, frame: &[u8]) -> Inspection {
        let Ok(located) = locate(frame) else { return self.inspect_unlocated(frame) };
        match Stamp::from_bytes(located.payload()) {
            Some(stamp) => self.inspect_stamped(&located, stamp),
            None => self.inspect_unstamped(&located),
        }
    }

    #[inline]
    fn inspect_stamped(&self, located: &Located<'_>, stamp: Stamp) -> Inspection {
        if stamp.tag != self.tag {
            return Inspection::OtherTag(stamp);
        }
        match self.check {
            Check::Whole if located.check_checksum().is_err() => Inspection::Corrupted(Corruption::Payload),
            _ => Inspection::Ours(stamp),
        }
    }

    /// What is in VXLAN has its stamp inside.
    #[cold]
    fn inspect_unstamped(&self, located: &Located<'_>) -> Inspection {
        let inner = located.unwrapped();
        let located = inner.as_ref().unwrap_or(located);
        let payload = located.payload();
        match Stamp::from_bytes(payload) {
            Some(stamp) => self.inspect_stamped(located, stamp),
            None if (payload.len() >= STAMP_BYTES && written_tag(payload) == Some(self.tag))
                || only_tag_is_damaged(payload, self.tag) =>
            {
                Inspection::Corrupted(Corruption::Stamp)
            }
            None => Inspection::Foreign,
        }
    }

    #[cold]
    fn inspect_unlocated(&self, frame: &[u8]) -> Inspection {
        let stamp = frame.get(self.stamp_offset..).and_then(Stamp::from_bytes);
        match stamp {
            Some(stamp) if stamp.tag == self.tag => Inspection::Corrupted(Corruption::Headers),
            Some(stamp) => Inspection::OtherTag(stamp),
            None => Inspection::Foreign,
        }
    }
}
