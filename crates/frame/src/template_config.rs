//! What a template of frames is made of.

use crate::ethernet::MacAddress;
use crate::flows::FlowList;
use crate::headers::{Payload, Transport, Tunnel};
use crate::sizes::SizeMix;
use crate::vlan::VlanTag;

/// What the frames of a template look like.
#[derive(Debug, Clone)]
pub struct TemplateConfig {
    /// The sizes.
    pub sizes: SizeMix,
    /// The sender's MAC address.
    pub source_mac: MacAddress,
    /// The receiver's (or the first router's) MAC address.
    pub destination_mac: MacAddress,
    /// VLAN tags from the outside in: none, one (802.1Q), or two (802.1ad around 802.1Q).
    pub vlans: Vec<VlanTag>,
    /// What stands around the packets of the flows; none: nothing.
    pub tunnel: Option<Tunnel>,
    /// Addresses and ports.
    pub flows: FlowList,
    /// What carries the payload.
    pub transport: Transport,
    /// What payloads are filled with.
    pub payload: Payload,
    /// Whether frames may go without a stamp where the smallest has no room for it. None has one then.
    pub may_go_unstamped: bool,
    /// DSCP and ECN of the packets.
    pub traffic_class: u8,
    /// Time to live, or hop limit (hops).
    pub hop_limit: u8,
    /// The tag of the stamps: names the trial and the direction.
    pub tag: u16,
}

impl TemplateConfig {
    /// The frames of the other direction: MAC addresses, addresses and ports swapped, stamped with `tag`.
    #[must_use]
    pub fn reversed(&self, tag: u16) -> Self {
        Self {
            source_mac: self.destination_mac,
            destination_mac: self.source_mac,
            tunnel: self.tunnel.map(Tunnel::reversed),
            flows: self.flows.reversed(),
            tag,
            ..self.clone()
        }
    }
}
