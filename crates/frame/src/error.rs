//! Errors of frame parsing (`WireError`, small and `Copy` because receive loops create it) and of the configuration
//! of a template (`TemplateError`).

use thiserror::Error;

/// The reason why bytes could not be parsed as a header, or a frame could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The input, or the output buffer, is too short.
    #[error("{header}: {seen_bytes} bytes seen, at least {needed_bytes} needed")]
    Short {
        /// Name of the header that was read or written.
        header: &'static str,
        /// Required length (bytes).
        needed_bytes: usize,
        /// Available length (bytes).
        seen_bytes: usize,
    },
    /// A header field has an invalid value.
    #[error("{header}: {field} is {seen:#x}, which is not allowed there")]
    Field {
        /// Name of the header that was read.
        header: &'static str,
        /// Name of the field in the RFC.
        field: &'static str,
        /// Invalid value of the field.
        seen: u32,
    },
    /// A checksum is wrong: the bytes were corrupted in transit.
    #[error("{header}: the checksum is wrong")]
    Checksum {
        /// Name of the header that contains the checksum.
        header: &'static str,
    },
    /// The packet is an IP fragment: it may lack headers of the upper layer.
    #[error("IPv4: a fragment, whole packets only are read")]
    Fragment,
    /// The frame contains no UDP datagram, TCP segment or ICMP echo over IPv4 or IPv6.
    #[error("{layer}: {seen:#x} is not UDP, TCP or an echo over IPv4 or IPv6")]
    Other {
        /// Name of the field with the unsupported number: `EtherType`, IP protocol or ICMP type.
        layer: &'static str,
        /// The unsupported number.
        seen: u16,
    },
    /// An index of a frame size or flow is out of range for the template.
    #[error("template: {what} {seen} asked for, there are {count}")]
    Index {
        /// Kind of the indexed item: size, flow or frame.
        what: &'static str,
        /// The requested index.
        seen: usize,
        /// Number of items.
        count: usize,
    },
}

/// The reason why a recording cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The recording ends in the middle of a frame.
    #[error("frame {frame} of the recording is cut short")]
    Cut {
        /// Index of the frame, from 0.
        frame: usize,
    },
    /// The length of a frame is not valid for Ethernet.
    #[error("frame {frame} of the recording is {seen_bytes} B long (without FCS); 60 to 9212 B are sent")]
    Length {
        /// Index of the frame, from 0.
        frame: usize,
        /// Length of the frame, without FCS (bytes).
        seen_bytes: usize,
    },
    /// The time of a frame is earlier than that of the previous frame.
    #[error("the time of frame {frame} of the recording goes back")]
    TimeBack {
        /// Index of the frame, from 0.
        frame: usize,
    },
    /// The recording has too many frames.
    #[error("a recording has at most {limit} frames")]
    Frames {
        /// Maximum number of frames.
        limit: usize,
    },
    /// The recording has no frames.
    #[error("a recording without a frame")]
    Empty,
    /// The recording has more flows than the flow field of the stamp can number.
    #[error("a recording of {seen} flows; there can be at most {limit}")]
    Flows {
        /// Number of flows in the recording.
        seen: u32,
        /// Maximum number of flows.
        limit: u32,
    },
}

/// The reason why a template configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The frame size is outside the range that the engine can send.
    #[error(
        "frame size {seen_bytes} B (with FCS) is not between {smallest_bytes} and {largest_bytes} B; \
         choose a size in that range"
    )]
    FrameSize {
        /// Requested frame size, with FCS (bytes).
        seen_bytes: u16,
        /// Minimum frame size, with FCS (bytes).
        smallest_bytes: u16,
        /// Maximum frame size, with FCS (bytes).
        largest_bytes: u16,
    },
    /// The headers, and the stamp where one is required, do not fit in the frame.
    #[error(
        "frame size {seen_bytes} B (with FCS) has no room for {headers} and the 18 B stamp; \
         the smallest size with these headers is {smallest_bytes} B"
    )]
    NoRoom {
        /// Requested frame size, with FCS (bytes).
        seen_bytes: u16,
        /// Names of the configured headers, for the error message.
        headers: String,
        /// Minimum frame size with room for the headers and the stamp, with FCS (bytes).
        smallest_bytes: u16,
    },
    /// The VXLAN network identifier has more than 24 bits.
    #[error("VXLAN segment {seen} asked for; segments go from 0 to 16777215")]
    Vni {
        /// Requested VXLAN network identifier.
        seen: u32,
    },
    /// The mix of frame sizes is empty, has a weight of zero, or is too long.
    #[error("size mix: {seen}; give 1 to 64 sizes with weights from 1, together at most 4096")]
    SizeMix {
        /// Description of the invalid mix, for the error message.
        seen: String,
    },
    /// The template has more than two VLAN tags.
    #[error("{seen} VLAN tags asked for; a frame carries none, one, or two (QinQ)")]
    VlanTags {
        /// Requested number of tags.
        seen: usize,
    },
    /// The id or the priority of a VLAN tag is outside the range of IEEE 802.1Q.
    #[error("VLAN tag with id {id} and priority {priority}: ids go from 0 to 4094, priorities from 0 to 7")]
    VlanTag {
        /// VLAN id.
        id: u16,
        /// Priority (PCP).
        priority: u8,
    },
    /// The number of flows is outside the range of the stamp's flow field.
    #[error("{seen} flows asked for; there can be 1 to {limit}")]
    FlowCount {
        /// Requested number of flows.
        seen: u32,
        /// Maximum number of flows.
        limit: u32,
    },
    /// Two flows would have the same addresses and ports.
    #[error(
        "{seen} flows asked for, but addresses and ports repeat after {distinct}; \
         widen a range (lengths without a common factor give the most flows)"
    )]
    FlowsRepeat {
        /// Requested number of flows.
        seen: u32,
        /// Number of flows before addresses and ports repeat.
        distinct: u64,
    },
    /// A range of addresses or ports exceeds its address family, its /64 prefix, or port 65535.
    #[error("{field}: {count} values from {first} in steps of {step} leave the allowed range ({allowed})")]
    Range {
        /// Name of the field of the flow list.
        field: &'static str,
        /// First value of the range, for the error message.
        first: String,
        /// Number of values in the range.
        count: u32,
        /// Increment between two values.
        step: u32,
        /// Description of the allowed range, for the error message.
        allowed: &'static str,
    },
    /// The source MAC address is a group address.
    #[error("source MAC address {seen} is a group address; use one whose first byte is even")]
    GroupSource {
        /// The invalid MAC address.
        seen: String,
    },
}
