//! The configuration of a frame template.

use crate::ethernet::MacAddress;
use crate::flows::FlowList;
use crate::headers::{Payload, Transport, Tunnel};
use crate::sizes::SizeMix;
use crate::vlan::VlanTag;

/// The configuration of the frames of a template.
#[derive(Debug, Clone)]
pub struct TemplateConfig {
    /// Frame sizes.
    pub sizes: SizeMix,
    /// MAC address of the sending interface.
    pub source_mac: MacAddress,
    /// MAC address of the receiver or of the first router.
    pub destination_mac: MacAddress,
    /// VLAN tags, outermost first: none, one (802.1Q), or two (802.1ad around 802.1Q).
    pub vlans: Vec<VlanTag>,
    /// Tunnel that encapsulates the packets of the flows, if any.
    pub tunnel: Option<Tunnel>,
    /// Address and port ranges of the flows.
    pub flows: FlowList,
    /// Transport protocol.
    pub transport: Transport,
    /// Payload fill.
    pub payload: Payload,
    /// Whether a configuration is accepted if its smallest frame has no room for a stamp. If so, all its frames are
    /// sent without a stamp.
    pub may_go_unstamped: bool,
    /// Traffic class of the packets: DSCP and ECN.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit (hops).
    pub hop_limit: u8,
    /// Tag of the stamps, which identifies the trial and the direction.
    pub tag: u16,
}

impl TemplateConfig {
    /// Return the configuration for the reverse direction: MAC addresses, IP addresses and ports swapped, stamps with
    /// `tag`.
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
