//! Header of each datagram and echo request of this crate: cookie, number and send time.

/// Length of the header in bytes.
pub const HEAD_BYTES: usize = 24;

/// The header at the start of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Cookie of the program that sent the request. Datagrams of other programs have different cookies.
    pub cookie: u64,
    /// Number of the request, from 0.
    pub number: u64,
    /// Send time by the sender's clock, in ns.
    pub sent_ns: u64,
}

impl Head {
    /// Write the header to the start of a payload of at least [`HEAD_BYTES`] bytes.
    pub fn write(self, payload: &mut [u8]) {
        for (place, word) in payload.chunks_exact_mut(8).zip([self.cookie, self.number, self.sent_ns]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Return the header of a payload; `None` if the payload is too short.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let mut words = payload.get(..HEAD_BYTES)?.chunks_exact(8);
        let mut word = || Some(u64::from_be_bytes(words.next()?.try_into().ok()?));
        Some(Self { cookie: word()?, number: word()?, sent_ns: word()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_head_is_read_back_as_written() {
        let head = Head { cookie: 7, number: u64::MAX, sent_ns: 1 };
        let mut payload = [0; 30];
        head.write(&mut payload);
        assert_eq!(Head::read(&payload), Some(head));
        assert_eq!(Head::read(&payload[..HEAD_BYTES]), Some(head));
        assert_eq!(payload[HEAD_BYTES..], [0; 6]);
    }

    #[test]
    fn short_payload_has_no_head() {
        assert_eq!(Head::read(&[0; HEAD_BYTES - 1]), None);
        assert_eq!(Head::read(&[]), None);
    }
}
