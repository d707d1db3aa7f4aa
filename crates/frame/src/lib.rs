//! Frames as bytes: header views, checksums, the measurement stamp and frame templates.
//!
//! This crate does no I/O, reads no clock, and allocates only while it builds objects from a configuration. Each
//! header has a *view* of bytes, which checks only the length (the fields may be invalid), and a *repr*, which is
//! always valid: `parse` creates it, `emit` writes it.

mod checksum;
mod crc;
mod error;
mod ethernet;
mod flows;
mod head;
mod headers;
mod inspect;
mod ip_header;
mod ipv4;
mod ipv6;
mod length;
mod locate;
mod recording;
mod sizes;
mod stamp;
mod super_frame;
mod template;
mod template_config;
mod udp;
mod vlan;

pub use checksum::{update_checksum, OnesComplementSum};
pub use crc::crc32c;
pub use error::{RecordingError, TemplateError, WireError};
pub use ethernet::{EtherType, EthernetRepr, EthernetView, MacAddress};
pub use flows::{Addresses, FlowList, Sweep, FLOW_LIMIT};
pub use headers::{Payload, Transport, Tunnel, TunnelEnds, TunnelKind};
pub use inspect::{Check, Corruption, Inspection, Inspector};
pub use ip_header::{ip_header, is_about_neighbours, is_ecn_capable, mark_congestion, IpVersion};
pub use ipv4::{Ipv4Repr, Ipv4View};
pub use ipv6::{Ipv6Repr, Ipv6View};
pub use locate::{locate, Located};
pub use recording::{Recording, Replay, MOST_RECORDED_FRAMES};
pub use sizes::{
    SizeMix, SizeShare, FCS_BYTES, LARGEST_FRAME_BYTES, LINE_OVERHEAD_BYTES, SMALLEST_FRAME_BYTES,
};
pub use stamp::{latency_ns, Stamp, STAMP_BYTES, TX_TIME_WRAP_NS};
pub use super_frame::{finish, RunHeader, Segments, TAP_HEADER_BYTES};
pub use template::FrameTemplate;
pub use template_config::TemplateConfig;
pub use udp::{udp_checksum, Pseudo, UdpRepr, UdpView};
pub use vlan::{VlanRepr, VlanTag, VlanView};
