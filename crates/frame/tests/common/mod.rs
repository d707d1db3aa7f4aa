//! Configurations that the tests of this crate share, and a seeded random number generator.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod tshark;

use std::net::{Ipv4Addr, Ipv6Addr};

use iolab_frame::{
    Addresses, FlowList, MacAddress, Payload, SizeMix, Sweep, TemplateConfig, Transport, VlanTag,
};

pub const TAG: u16 = 0x4f2d;

/// Return the configuration of 10 100 flows over IPv4 in frames of `sizes`, with VLAN ids 100, 101, ... from the
/// outermost tag inwards.
pub fn v4(sizes: SizeMix, tags: u16) -> TemplateConfig {
    config(
        sizes,
        tags,
        Addresses::V4(
            Sweep::rising(Ipv4Addr::new(198, 18, 0, 1), 100),
            Sweep { first: Ipv4Addr::new(198, 19, 0, 1), count: 101, step: 256, every: 1 },
        ),
    )
}

/// Return the configuration of 10 100 flows over IPv6, otherwise like [`v4`].
pub fn v6(sizes: SizeMix, tags: u16) -> TemplateConfig {
    let address = |last| Ipv6Addr::new(0x2001, 0x0002, 0, 0x8001, 0xffff, 0, 0, last);
    config(
        sizes,
        tags,
        Addresses::V6(
            Sweep::rising(address(1), 100),
            Sweep { first: address(0x8000), count: 101, step: u32::MAX, every: 1 },
        ),
    )
}

fn config(sizes: SizeMix, tags: u16, addresses: Addresses) -> TemplateConfig {
    TemplateConfig {
        sizes,
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 0xfe]),
        vlans: (0..tags).map(|i| VlanTag { id: 100 + i, priority: 5, drop_eligible: i == 0 }).collect(),
        tunnel: None,
        transport: Transport::Udp,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        flows: FlowList {
            addresses,
            source_ports: Sweep::rising(49_152, 100),
            destination_ports: Sweep::fixed(9),
            count: 10_100,
        },
        traffic_class: 0x2e << 2,
        hop_limit: 64,
        tag: TAG,
    }
}

/// A seeded random number generator (`SplitMix64`).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }
}
