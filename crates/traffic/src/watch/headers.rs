//! Parsing of a packet's headers for its segments and its flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iolab_frame::{ip_header, IpVersion};
use iolab_port::FlowKey;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Mask of the flag MF and the fragment offset (RFC 791): nonzero in a fragment.
const FRAGMENT: u16 = 0x3fff;

/// Return the protocol and the offset of the transport header.
fn transport(packet: &[u8]) -> Option<(u8, usize)> {
    match ip_header(packet)? {
        (IpVersion::V4, at) => Some((packet[at + 9], at + usize::from(packet[at] & 0xf) * 4)),
        (IpVersion::V6, at) => Some((packet[at + 6], at + 40)),
    }
}

/// Return the length of all headers of a super-frame.
pub fn header_bytes(packet: &[u8]) -> Option<usize> {
    let (protocol, at) = transport(packet)?;
    match protocol {
        TCP => Some(at + usize::from(packet.get(at + 12)? >> 4) * 4),
        UDP => Some(at + 8),
        _ => None,
    }
}

/// Return the flow of a packet; all non-IP packets are one flow.
pub fn flow_key(packet: &[u8]) -> FlowKey {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let nothing =
        FlowKey { source: nobody, destination: nobody, source_port: 0, destination_port: 0, protocol: 0 };
    let Some((version, at)) = ip_header(packet) else { return nothing };
    let word = |at: usize| packet.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let (source, destination, fragment) = match version {
        IpVersion::V4 => {
            let address = |at: usize| IpAddr::V4(Ipv4Addr::from(octets::<4>(packet, at)));
            (address(at + 12), address(at + 16), word(at + 6) & FRAGMENT != 0)
        }
        IpVersion::V6 => {
            let address = |at: usize| IpAddr::V6(Ipv6Addr::from(octets::<16>(packet, at)));
            (address(at + 8), address(at + 24), false)
        }
    };
    let (protocol, ports_at) = transport(packet).unwrap_or((0, at));
    let has_ports = matches!(protocol, TCP | UDP) && !fragment;
    let port = |place: usize| if has_ports { word(ports_at + place) } else { 0 };
    FlowKey { source, destination, source_port: port(0), destination_port: port(2), protocol }
}

fn octets<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|place| packet.get(at + place).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> Vec<u8> {
        let mut packet = vec![2; 12];
        packet.extend([8, 0, 0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        packet.extend([0x14, 0x51, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x10, 0, 0, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn headers_end_where_the_payload_begins() {
        assert_eq!(header_bytes(&tcp()), Some(14 + 20 + 32));
        assert_eq!(header_bytes(&tcp()[..40]), None);
    }

    #[test]
    fn flow_key_has_addresses_and_ports_and_a_fragment_has_no_ports() {
        let key = flow_key(&tcp());
        assert_eq!(
            (key.source.to_string().as_str(), key.source_port, key.destination_port),
            ("198.18.0.1", 5201, 80)
        );
        let mut fragment = tcp();
        fragment[20] = 0x20;
        assert_eq!((flow_key(&fragment).source_port, flow_key(&fragment).protocol), (0, 6));
        assert_eq!(flow_key(&[0; 60]).protocol, 0);
    }
}
