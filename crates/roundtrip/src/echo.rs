//! Headers of echo requests and echo replies. Replies are untrusted input with arbitrary content.

use crate::request::{Probes, Protocol};

const ICMP_BYTES: usize = 8;
const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// Kind of header before the payload of a request and of its reply.
#[derive(Debug, Clone, Copy)]
pub enum Echo {
    /// A UDP datagram without a further header.
    Udp,
    /// An ICMP echo header (RFC 792).
    V4 {
        /// The identifier field, which assigns replies to their sender.
        id: u16,
    },
    /// An `ICMPv6` echo header (RFC 4443).
    V6 {
        /// The identifier field, which assigns replies to their sender.
        id: u16,
    },
}

impl Echo {
    /// Return the header kind for a probe request. The upper 16 bits of the cookie become the identifier.
    pub fn of(asked: &Probes, cookie: u64) -> Self {
        let [high, low, ..] = cookie.to_be_bytes();
        let id = u16::from_be_bytes([high, low]);
        match (asked.protocol, asked.address.is_ipv4()) {
            (Protocol::Icmp, true) => Self::V4 { id },
            (Protocol::Icmp, false) => Self::V6 { id },
            _ => Self::Udp,
        }
    }

    /// Return the length of the header in bytes.
    pub const fn head_bytes(self) -> usize {
        match self {
            Self::Udp => 0,
            Self::V4 { .. } | Self::V6 { .. } => ICMP_BYTES,
        }
    }

    /// Write the header of an echo request in front of a payload that is already in `message` (RFC 792, RFC
    /// 4443). The kernel computes the `ICMPv6` checksum.
    pub fn write(self, number: u64, message: &mut [u8]) {
        let (kind, id) = match self {
            Self::Udp => return,
            Self::V4 { id } => (V4_REQUEST, id),
            Self::V6 { id } => (V6_REQUEST, id),
        };
        let [.., high, low] = number.to_be_bytes();
        message[..4].copy_from_slice(&[kind, 0, 0, 0]);
        message[4..6].copy_from_slice(&id.to_be_bytes());
        message[6..8].copy_from_slice(&[high, low]);
        if kind == V4_REQUEST {
            let sum = checksum(message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Return the payload of an echo reply to this program; `None` for all other messages.
    pub fn payload(self, message: &[u8]) -> Option<&[u8]> {
        let (kind, id, icmp) = match self {
            Self::Udp => return Some(message),
            // A raw IPv4 socket returns the IP header as well.
            Self::V4 { id } => (V4_REPLY, id, message.get(usize::from(message.first()? & 0x0F) * 4..)?),
            Self::V6 { id } => (V6_REPLY, id, message),
        };
        let head = icmp.get(..ICMP_BYTES)?;
        (head[0] == kind && head[4..6] == id.to_be_bytes()).then(|| &icmp[ICMP_BYTES..])
    }
}

/// Return the Internet checksum of a message whose checksum field is 0 (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in message.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Head;
    use proptest::prelude::*;

    #[test]
    fn icmp_checksum_matches_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xFF]), !0xFF00);
    }

    #[test]
    fn echo_reply_to_this_process_is_distinguished_from_others() {
        let echo = Echo::V4 { id: 0x1234 };
        let mut message = [0; 40];
        message[0] = 0x45;
        message[20..28].copy_from_slice(&[V4_REPLY, 0, 0, 0, 0x12, 0x34, 0, 1]);
        assert_eq!(echo.payload(&message).map(<[u8]>::len), Some(12));
        message[20] = V4_REQUEST;
        assert_eq!(echo.payload(&message), None);
        message[20..28].copy_from_slice(&[V4_REPLY, 0, 0, 0, 0x12, 0x35, 0, 1]);
        assert_eq!(echo.payload(&message), None);
        assert_eq!(echo.payload(&message[..25]), None);
        assert_eq!(echo.payload(&[]), None);
    }

    fn cases() -> ProptestConfig {
        let cases = std::env::var("IOLAB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10_000);
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(cases())]

        /// `IOLAB_CASES=10000000 cargo test --release -p iolab-roundtrip echo` reads ten million messages.
        #[test]
        fn any_reply_is_recognised_or_ignored(
            mut message in prop::collection::vec(any::<u8>(), 0..80),
            id in any::<u16>(),
            alike in any::<bool>(),
        ) {
            if alike && message.len() > 28 {
                message[0] = 0x45;
                message[20..26].copy_from_slice(&[V4_REPLY, 0, 0, 0, id.to_be_bytes()[0], id.to_be_bytes()[1]]);
            }
            for echo in [Echo::Udp, Echo::V4 { id }, Echo::V6 { id }] {
                let payload = echo.payload(&message);
                prop_assert!(payload.is_none_or(|payload| message.ends_with(payload)));
                prop_assert!(payload.and_then(Head::read).is_none() || message.len() >= 24);
            }
            let ours = Echo::V4 { id }.payload(&message).is_some();
            prop_assert!(!alike || message.len() <= 28 || ours);
        }
    }
}
