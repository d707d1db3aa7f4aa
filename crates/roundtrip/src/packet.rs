//! What a datagram or an echo request begins with: whose it is, which one, and when it left.

/// Its length. (bytes)
pub const HEAD_BYTES: usize = 24;

/// The beginning of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Of the program that sent it: others' datagrams have another.
    pub cookie: u64,
    /// Number of the request, from 0.
    pub number: u64,
    /// When it left, by the clock of the sender. (ns)
    pub sent_ns: u64,
}

impl Head {
    /// Write it at the beginning of a payload of at least [`HEAD_BYTES`].
    pub fn write(self, payload: &mut [u8]) {
        for (place, word) in payload.chunks_exact_mut(8).zip([self.cookie, self.number, self.sent_ns]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Read it; `None` where the payload is too short.
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
    fn what_was_written_is_read() {
        let head = Head { cookie: 7, number: u64::MAX, sent_ns: 1 };
        let mut payload = [0; 30];
        head.write(&mut payload);
        assert_eq!(Head::read(&payload), Some(head));
        assert_eq!(Head::read(&payload[..HEAD_BYTES]), Some(head));
        assert_eq!(payload[HEAD_BYTES..], [0; 6]);
    }

    #[test]
    fn a_short_payload_has_no_head() {
        assert_eq!(Head::read(&[0; HEAD_BYTES - 1]), None);
        assert_eq!(Head::read(&[]), None);
    }
}
