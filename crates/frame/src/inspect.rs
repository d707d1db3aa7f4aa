//! Classification of received frames: of this trial, of a different trial, corrupted, or foreign.

use crate::locate::{locate, Located};
use crate::stamp::{only_tag_is_damaged, written_tag, Stamp, STAMP_BYTES};

/// The extent of the checks on a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// Check lengths, IPv4 header checksum, stamp, and the transport checksum over the whole payload.
    #[default]
    Whole,
    /// Check everything except the transport checksum: cheaper for large frames, but corruption after the stamp is
    /// not detected.
    HeadersAndStamp,
}

/// The corrupted part of a frame of this trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// The CRC of the stamp is wrong.
    Stamp,
    /// The CRC of the stamp is correct, but a header is wrong or the frame is truncated.
    Headers,
    /// The stamp and the headers are correct, but the transport checksum is wrong.
    Payload,
}

/// The class of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// An intact frame of this trial and direction.
    Ours(Stamp),
    /// An intact frame of the engine from a different trial or direction: a straggler.
    OtherTag(Stamp),
    /// A corrupted frame of this trial.
    Corrupted(Corruption),
    /// A frame that the engine did not send: ARP, neighbour discovery, or other traffic.
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
    /// Create an inspector for frames whose stamp has the tag `tag`. `stamp_offset` is the offset of the stamp in
    /// sent frames ([`crate::FrameTemplate::stamp_offset`]); the inspector reads the stamp there if it cannot parse
    /// the headers.
    pub const fn new(tag: u16, stamp_offset: usize, check: Check) -> Self {
        Self { tag, stamp_offset, check }
    }

    /// Classify `frame` (without FCS).
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

    /// Classify a frame without a stamp at the start of its payload; in a VXLAN frame, search the inner packet.
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
