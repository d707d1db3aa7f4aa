//! Conversion of a sender's frame parameters to a template configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iolab_frame::{
    Addresses, FlowList, MacAddress, Payload, SizeMix, Sweep, TemplateConfig, Transport, Tunnel, TunnelEnds,
    TunnelKind, VlanTag, LARGEST_FRAME_BYTES,
};
use iolab_protocol::traffic::{self, FrameParams};
use iolab_protocol::ErrorObject;

use crate::faults::bad_params;

/// Return the template configuration of a sender's frames.
pub fn template_config(
    name: &str,
    frames: &FrameParams,
    sizes: SizeMix,
    own_mac: [u8; 6],
    tag: u16,
) -> Result<TemplateConfig, ErrorObject> {
    let mac = |field: &str, text: &str| {
        text.parse::<MacAddress>().map_err(|error| bad_params(&format!("{name}.frames.{field}"), &error))
    };
    let source = frames.source_mac.as_deref().map(|text| mac("source_mac", text)).transpose()?;
    let vlans = frames.vlans.iter().map(|tag| VlanTag {
        id: tag.id,
        priority: tag.priority,
        drop_eligible: tag.drop_eligible,
    });
    Ok(TemplateConfig {
        sizes,
        source_mac: source.unwrap_or(MacAddress(own_mac)),
        destination_mac: mac("destination_mac", &frames.destination_mac)?,
        vlans: vlans.collect(),
        tunnel: frames.tunnel.map(|asked| tunnel(name, asked)).transpose()?,
        flows: flow_list(name, &frames.flows)?,
        transport: match frames.transport {
            traffic::Transport::Udp => Transport::Udp,
            traffic::Transport::Tcp => Transport::Tcp,
            traffic::Transport::Icmp => Transport::Icmp,
        },
        payload: payload(name, &frames.payload)?,
        may_go_unstamped: frames.may_go_unstamped,
        traffic_class: frames.traffic_class,
        hop_limit: frames.hop_limit,
        tag,
    })
}

fn flow_list(name: &str, flows: &traffic::Flows) -> Result<FlowList, ErrorObject> {
    let (source, destination) = (flows.source_address, flows.destination_address);
    let addresses = match (source.first, destination.first) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            Addresses::V4(sweep::<Ipv4Addr, _>(from, source), sweep(to, destination))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            Addresses::V6(sweep::<Ipv6Addr, _>(from, source), sweep(to, destination))
        }
        _ => {
            let error = "source and destination are of one family, IPv4 or IPv6";
            return Err(bad_params(&format!("{name}.frames.flows"), &error));
        }
    };
    Ok(FlowList {
        addresses,
        source_ports: sweep(flows.source_port.first, flows.source_port),
        destination_ports: sweep(flows.destination_port.first, flows.destination_port),
        count: flows.count,
    })
}

const fn sweep<A: Copy, B: Copy>(first: A, range: traffic::Range<B>) -> Sweep<A> {
    Sweep { first, count: range.count, step: range.step, every: range.every }
}

fn tunnel(name: &str, asked: traffic::Tunnel) -> Result<Tunnel, ErrorObject> {
    let (source, destination, kind) = match asked {
        traffic::Tunnel::Vxlan { source, destination, vni } => {
            (source, destination, TunnelKind::Vxlan { vni })
        }
        traffic::Tunnel::Gre { source, destination } => (source, destination, TunnelKind::Gre),
    };
    let ends = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => TunnelEnds::V4(source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => TunnelEnds::V6(source, destination),
        _ => {
            let error = "source and destination are of one family, IPv4 or IPv6";
            return Err(bad_params(&format!("{name}.frames.tunnel"), &error));
        }
    };
    Ok(Tunnel { ends, kind })
}

fn payload(name: &str, asked: &traffic::Payload) -> Result<Payload, ErrorObject> {
    Ok(match asked {
        traffic::Payload::Incrementing => Payload::Incrementing,
        traffic::Payload::Zeros => Payload::Zeros,
        traffic::Payload::Ones => Payload::Ones,
        &traffic::Payload::Random { seed } => Payload::Random(seed),
        traffic::Payload::Bytes { hex } => {
            Payload::Bytes(bytes_of(hex, usize::from(LARGEST_FRAME_BYTES)).ok_or_else(|| {
                let error = format!("'hex' is 1 to {LARGEST_FRAME_BYTES} pairs of hexadecimal digits");
                bad_params(&format!("{name}.frames.payload"), &error)
            })?)
        }
    })
}

/// Parse 1 to `most` pairs of hexadecimal digits as bytes.
pub fn bytes_of(hex: &str, most: usize) -> Option<Box<[u8]>> {
    let digits = hex.as_bytes();
    let fits = (1..=most).contains(&(digits.len() / 2)) && digits.len() % 2 == 0;
    let digit = |&byte: &u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pair = |pair: &[u8]| Some(digit(&pair[0])? << 4 | digit(&pair[1])?);
    fits.then(|| digits.chunks_exact(2).map(pair).collect::<Option<Box<[u8]>>>()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_bytes_are_parsed_from_pairs_of_digits() {
        assert_eq!(bytes_of("00fF", 2).as_deref(), Some(&[0, 255][..]));
        let refused = ["", "0", "0g", "000000"].map(|hex| bytes_of(hex, 2));
        assert_eq!(refused, [None, None, None, None]);
    }
}
