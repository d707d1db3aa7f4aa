//! The IP header after Ethernet and up to two VLAN tags, and its ECN field (RFC 3168).

use crate::checksum::update_checksum;

/// The version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Return the version and the offset of a frame's IP header, if the frame contains a complete header.
pub fn ip_header(frame: &[u8]) -> Option<(IpVersion, usize)> {
    let (kind, begin) = ether_type(frame)?;
    match kind {
        [0x08, 0x00] => (frame.len() >= begin + 20).then_some((IpVersion::V4, begin)),
        [0x86, 0xdd] => (frame.len() >= begin + 40).then_some((IpVersion::V6, begin)),
        _ => None,
    }
}

/// Return the `EtherType` and the offset of the payload after up to two VLAN tags.
fn ether_type(frame: &[u8]) -> Option<(&[u8], usize)> {
    let mut at = 12;
    for _ in 0..2 {
        if matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
            at += 4;
        }
    }
    Some((frame.get(at..at + 2)?, at + 2))
}

/// Whether a queue may mark the frame instead of dropping it: its IP header has an ECT codepoint.
pub fn is_ecn_capable(frame: &[u8]) -> bool {
    ip_header(frame).is_some_and(|(version, at)| match version {
        IpVersion::V4 => matches!(frame[at + 1] & 3, 1 | 2),
        IpVersion::V6 => matches!(frame[at + 1] >> 4 & 3, 1 | 2),
    })
}

/// Whether the frame is ARP, neighbour discovery (RFC 4861) or a multicast listener report (RFC 3810), which each
/// interface sends even if there is no other traffic.
pub fn is_about_neighbours(frame: &[u8]) -> bool {
    let Some((kind, begin)) = ether_type(frame) else { return false };
    match kind {
        [0x08, 0x06] => true,
        [0x86, 0xdd] => {
            let (next, at) = match frame.get(begin + 6) {
                // Multicast listener reports have one hop-by-hop extension header of 8 bytes with the router alert.
                Some(0) => (frame.get(begin + 40), begin + 48),
                next => (next, begin + 40),
            };
            next == Some(&58) && matches!(frame.get(at), Some(130..=137 | 143))
        }
        _ => false,
    }
}

/// Set the ECN codepoint CE (congestion experienced) in a frame's IP header, if the frame has one.
pub fn mark_congestion(frame: &mut [u8]) {
    match ip_header(frame) {
        Some((IpVersion::V4, at)) => {
            let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let (old, checksum) = (word(at), word(at + 10));
            let updated = update_checksum(checksum, old, old | 3);
            frame[at + 1] |= 3;
            frame[at + 10..at + 12].copy_from_slice(&updated.to_be_bytes());
        }
        Some((IpVersion::V6, at)) => frame[at + 1] |= 3 << 4,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::OnesComplementSum;

    fn version_4(tags: usize, traffic_class: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
        frame.extend([8, 0]);
        let mut ip = [0x45, traffic_class, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        let sum = OnesComplementSum::new().add_bytes(&ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        frame
    }

    /// Return an IPv6 frame with an `ICMPv6` message of this type, after hop-by-hop options if `options` is set.
    fn icmpv6(tags: usize, kind: u8, options: bool) -> Vec<u8> {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, if options { 0 } else { 58 }, 255]);
        frame.extend([0xfe; 32]);
        if options {
            frame.extend([58, 0, 5, 2, 0, 0, 1, 0]);
        }
        frame.extend([kind, 0, 0, 0]);
        frame
    }

    #[test]
    fn only_arp_nd_and_mld_frames_are_neighbour_traffic() {
        for tags in 0..=2 {
            let mut arp = vec![2; 12];
            (0..tags).for_each(|_| arp.extend([0x81, 0, 0, 5]));
            arp.extend([8, 6, 0, 1]);
            assert!(is_about_neighbours(&arp));
            assert!((133..=137).all(|kind| is_about_neighbours(&icmpv6(tags, kind, false))));
            assert!([130, 143].iter().all(|kind| is_about_neighbours(&icmpv6(tags, *kind, true))));
            assert!(!is_about_neighbours(&version_4(tags, 0)));
            // Echo requests and replies are the traffic of ping, and "packet too big" comes from a router on the path.
            assert!([2, 128, 129].iter().all(|kind| !is_about_neighbours(&icmpv6(tags, *kind, false))));
        }
        let whole = icmpv6(0, 135, true);
        assert!((0..=62).all(|length| !is_about_neighbours(&whole[..length])));
    }

    #[test]
    fn ecn_mark_keeps_the_ipv4_checksum_valid() {
        for tags in 0..=2 {
            let mut frame = version_4(tags, 0x02);
            assert!(is_ecn_capable(&frame) && !is_ecn_capable(&version_4(tags, 0)));
            mark_congestion(&mut frame);
            let ip = &frame[14 + 4 * tags..];
            assert_eq!((ip[1], OnesComplementSum::new().add_bytes(ip).checksum()), (3, 0));
            assert!(!is_ecn_capable(&frame), "what is marked says no more than that");
        }
    }

    #[test]
    fn ipv6_frames_are_marked_and_other_frames_are_not() {
        let mut frame = [vec![2; 12], vec![0x86, 0xdd, 0x60, 0x10], vec![0; 38]].concat();
        assert!(is_ecn_capable(&frame));
        mark_congestion(&mut frame);
        assert_eq!(frame[14..16], [0x60, 0x30]);
        let mut other = [vec![2; 12], vec![0x08, 0x06], vec![0; 46]].concat();
        let before = other.clone();
        mark_congestion(&mut other);
        assert!(other == before && !is_ecn_capable(&other) && !is_ecn_capable(&frame[..20]));
    }
}
