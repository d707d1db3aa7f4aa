//! Flow lists: ranges of addresses and ports that advance together from one flow to the next.

use crate::ip_header::IpVersion;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::TemplateError;
use crate::headers::Transport;

/// Maximum number of flows: the stamp has 20 bits for the flow number.
pub const FLOW_LIMIT: u32 = 1 << 20;

/// A range of values: flow `f` has the value `first + step * (f / every mod count)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep<A> {
    /// Value for flow 0.
    pub first: A,
    /// Number of distinct values before the range repeats, at least 1.
    pub count: u32,
    /// Increment between two consecutive values.
    pub step: u32,
    /// Number of consecutive flows with the same value, at least 1.
    pub every: u32,
}

impl<A> Sweep<A> {
    /// Return a range with the same value for every flow.
    pub const fn fixed(first: A) -> Self {
        Self { first, count: 1, step: 0, every: 1 }
    }

    /// Return a range of `count` consecutive values from `first`.
    pub const fn rising(first: A, count: u32) -> Self {
        Self { first, count, step: 1, every: 1 }
    }
}

/// Address ranges of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Source and destination range over IPv4.
    V4(Sweep<Ipv4Addr>, Sweep<Ipv4Addr>),
    /// Source and destination range over IPv6; each range stays within one /64 prefix.
    V6(Sweep<Ipv6Addr>, Sweep<Ipv6Addr>),
}

/// All flows of a template. Ranges with the same `every` advance together, so their lengths should be coprime. A range
/// whose `every` equals the number of flows that the ranges with a smaller `every` can distinguish multiplies that
/// number by the length of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowList {
    /// Source and destination address ranges.
    pub addresses: Addresses,
    /// Source port range; for echo requests, the range of identifiers.
    pub source_ports: Sweep<u16>,
    /// Destination port range; unused for echo requests.
    pub destination_ports: Sweep<u16>,
    /// Number of flows, 1 to [`FLOW_LIMIT`].
    pub count: u32,
}

impl FlowList {
    /// Return a list with one flow between two IPv4 sockets.
    pub const fn one_v4(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> Self {
        Self {
            addresses: Addresses::V4(Sweep::fixed(source.0), Sweep::fixed(destination.0)),
            source_ports: Sweep::fixed(source.1),
            destination_ports: Sweep::fixed(destination.1),
            count: 1,
        }
    }

    /// Return the same flows in the reverse direction.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        let addresses = match self.addresses {
            Addresses::V4(source, destination) => Addresses::V4(destination, source),
            Addresses::V6(source, destination) => Addresses::V6(destination, source),
        };
        Self {
            addresses,
            source_ports: self.destination_ports,
            destination_ports: self.source_ports,
            count: self.count,
        }
    }

    /// Return the IP version of the addresses.
    pub const fn version(&self) -> IpVersion {
        match self.addresses {
            Addresses::V4(..) => IpVersion::V4,
            Addresses::V6(..) => IpVersion::V6,
        }
    }

    /// Return the source and destination address of flow 0.
    pub(crate) const fn first(&self) -> (IpAddr, IpAddr) {
        match self.addresses {
            Addresses::V4(source, destination) => (IpAddr::V4(source.first), IpAddr::V4(destination.first)),
            Addresses::V6(source, destination) => (IpAddr::V6(source.first), IpAddr::V6(destination.first)),
        }
    }

    /// Validate the list and compute the header fields of each flow over `transport`.
    pub(crate) fn fields(&self, transport: Transport) -> Result<Box<[FlowFields]>, TemplateError> {
        if self.count == 0 || self.count > FLOW_LIMIT {
            return Err(TemplateError::FlowCount { seen: self.count, limit: FLOW_LIMIT });
        }
        let (sources, destinations) = match self.addresses {
            Addresses::V4(source, destination) => {
                (range("source address", source)?, range("destination address", destination)?)
            }
            Addresses::V6(source, destination) => {
                (range("source address", source)?, range("destination address", destination)?)
            }
        };
        let source_ports = range("source port", self.source_ports)?;
        let destination_ports = match transport {
            Transport::Icmp => range("sequence number", Sweep::fixed(0u16))?,
            Transport::Udp | Transport::Tcp => range("destination port", self.destination_ports)?,
        };
        let ranges = [sources, destinations, source_ports, destination_ports];
        let distinct = told_apart(ranges);
        if distinct < u64::from(self.count) {
            return Err(TemplateError::FlowsRepeat { seen: self.count, distinct });
        }
        let fields = (0..u64::from(self.count)).map(|flow| {
            let [source, destination, source_port, destination_port] = ranges.map(|range| range.value(flow));
            FlowFields { source, destination, ports: to_u32(source_port << 16 | destination_port) }
        });
        Ok(fields.collect())
    }
}

/// The header fields that identify a flow: the low 64 bits of its addresses (all bits of an IPv4 address) and its
/// ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowFields {
    /// Low 64 bits of the source address.
    pub source: u64,
    /// Low 64 bits of the destination address.
    pub destination: u64,
    /// Source port in the high 16 bits, destination port in the low 16 bits.
    pub ports: u32,
}

/// A range converted to integers.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u64,
    count: u64,
    step: u64,
    every: u64,
}

impl Range {
    const fn value(&self, flow: u64) -> u64 {
        self.first + self.step * (flow / self.every % self.count)
    }

    const fn period(&self) -> u64 {
        if self.step == 0 {
            1
        } else {
            self.count
        }
    }
}

/// Return a lower bound of the number of flows with distinct fields, from the first flow on: like the digits of a
/// number, each range advances when the ranges with a smaller `every` wrap around.
fn told_apart(mut ranges: [Range; 4]) -> u64 {
    ranges.sort_by_key(|range| range.every);
    let mut flows: u64 = 1;
    for group in ranges.chunk_by(|one, next| one.every == next.every) {
        let period = group.iter().fold(1, |flows, range| least_common_multiple(flows, range.period()));
        if group[0].every == flows {
            flows = flows.saturating_mul(period);
        }
    }
    flows
}

/// A value whose low bits form a range.
trait Walked: Copy {
    const ALLOWED: &'static str;
    const LARGEST: u64;
    fn low_bits(self) -> u64;
    fn words(self) -> String;
}

impl Walked for Ipv4Addr {
    const ALLOWED: &'static str = "IPv4 addresses";
    const LARGEST: u64 = u32::MAX as u64;
    fn low_bits(self) -> u64 {
        u64::from(u32::from(self))
    }
    fn words(self) -> String {
        self.to_string()
    }
}

impl Walked for Ipv6Addr {
    const ALLOWED: &'static str = "one /64";
    const LARGEST: u64 = u64::MAX;
    fn low_bits(self) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = self.octets();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
    fn words(self) -> String {
        self.to_string()
    }
}

impl Walked for u16 {
    const ALLOWED: &'static str = "ports up to 65535";
    const LARGEST: u64 = Self::MAX as u64;
    fn low_bits(self) -> u64 {
        u64::from(self)
    }
    fn words(self) -> String {
        self.to_string()
    }
}

fn range<A: Walked>(field: &'static str, sweep: Sweep<A>) -> Result<Range, TemplateError> {
    let range = Range {
        first: sweep.first.low_bits(),
        count: u64::from(sweep.count),
        step: u64::from(sweep.step),
        every: u64::from(sweep.every.max(1)),
    };
    let last = range.count.checked_sub(1).and_then(|steps| range.first.checked_add(range.step * steps));
    if last.is_none_or(|last| last > A::LARGEST) {
        return Err(TemplateError::Range {
            field,
            first: sweep.first.words(),
            count: sweep.count,
            step: sweep.step,
            allowed: A::ALLOWED,
        });
    }
    Ok(range)
}

const fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const DESTINATION: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);

    fn list(sources: u32, ports: u32, count: u32) -> FlowList {
        FlowList {
            addresses: Addresses::V4(Sweep::rising(SOURCE, sources), Sweep::fixed(DESTINATION)),
            source_ports: Sweep::rising(1024, ports),
            destination_ports: Sweep::fixed(9),
            count,
        }
    }

    #[test]
    fn ranges_with_coprime_lengths_give_the_product_of_flows() {
        let fields = list(100, 101, 10_100).fields(Transport::Udp).expect("10 100 flows");
        let distinct: std::collections::HashSet<_> =
            fields.iter().map(|flow| (flow.source, flow.destination, flow.ports)).collect();
        assert_eq!(distinct.len(), 10_100);
    }

    #[test]
    fn repeating_flows_are_refused_with_the_number_of_distinct_flows() {
        let error = list(100, 100, 101).fields(Transport::Udp).expect_err("repeats");
        assert_eq!(error, TemplateError::FlowsRepeat { seen: 101, distinct: 100 });
    }

    #[test]
    fn chained_ranges_give_a_million_flows() {
        let all = FlowList {
            destination_ports: Sweep { first: 1, count: 100, step: 3, every: 10_000 },
            source_ports: Sweep { first: 1024, count: 100, step: 1, every: 100 },
            ..list(100, 1, 1_000_000)
        };
        let fields = all.fields(Transport::Tcp).expect("a million flows");
        let distinct: std::collections::HashSet<_> =
            fields.iter().map(|flow| (flow.source, flow.destination, flow.ports)).collect();
        assert_eq!(distinct.len(), 1_000_000);
        let error = FlowList { count: 1_000_001, ..all }.fields(Transport::Tcp).expect_err("repeats");
        assert_eq!(error, TemplateError::FlowsRepeat { seen: 1_000_001, distinct: 1_000_000 });
        let echoes = all.fields(Transport::Icmp).expect_err("no destination ports");
        assert_eq!(echoes, TemplateError::FlowsRepeat { seen: 1_000_000, distinct: 10_000 });
    }

    #[test]
    fn port_range_beyond_65535_is_refused() {
        let error = list(1, 64_513, 1).fields(Transport::Udp).expect_err("past 65535").to_string();
        assert!(error.contains("source port") && error.contains("64513 values from 1024"), "{error}");
    }

    #[test]
    fn empty_range_of_addresses_or_ports_is_refused() {
        assert!(list(0, 1, 1).fields(Transport::Udp).is_err());
    }
}
