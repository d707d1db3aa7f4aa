//! What can be wrong with bytes (`WireError`, small and `Copy`: it is made in receive loops) and with the
//! configuration of a template (`TemplateError`).

use thiserror::Error;

/// Why bytes are not the header they were read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes, or the buffer to write to, end too early.
    #[error("{header}: {seen_bytes} bytes seen, at least {needed_bytes} needed")]
    Short {
        /// The header being read or written.
        header: &'static str,
        /// What it takes (bytes).
        needed_bytes: usize,
        /// What was there (bytes).
        seen_bytes: usize,
    },
    /// A field holds a value that the header does not allow.
    #[error("{header}: {field} is {seen:#x}, which is not allowed there")]
    Field {
        /// The header being read.
        header: &'static str,
        /// The field's name in the RFC.
        field: &'static str,
        /// What it holds.
        seen: u32,
    },
    /// A checksum is wrong: the bytes were damaged on their way.
    #[error("{header}: the checksum is wrong")]
    Checksum {
        /// The header whose checksum it is.
        header: &'static str,
    },
    /// The packet is a fragment: headers of the upper layer are not all there.
    #[error("IPv4: a fragment, whole packets only are read")]
    Fragment,
    /// The frame carries something else than UDP, TCP or an echo over IPv4 or IPv6.
    #[error("{layer}: {seen:#x} is not UDP, TCP or an echo over IPv4 or IPv6")]
    Other {
        /// Where the foreign number was seen: an `EtherType`, a protocol number or a type of ICMP.
        layer: &'static str,
        /// The number.
        seen: u16,
    },
    /// A template was asked for a size or a flow that it does not have.
    #[error("template: {what} {seen} asked for, there are {count}")]
    Index {
        /// What was asked for.
        what: &'static str,
        /// The index asked for.
        seen: usize,
        /// How many there are.
        count: usize,
    },
}

/// Why a recording cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It ends within a frame.
    #[error("frame {frame} of the recording is cut short")]
    Cut {
        /// Its number, from 0 on.
        frame: usize,
    },
    /// A frame that no Ethernet carries.
    #[error("frame {frame} of the recording is {seen_bytes} B long (without FCS); 60 to 9212 B are sent")]
    Length {
        /// Its number, from 0 on.
        frame: usize,
        /// Its length, without FCS (bytes).
        seen_bytes: usize,
    },
    /// A frame that came before the one before it.
    #[error("the time of frame {frame} of the recording goes back")]
    TimeBack {
        /// Its number, from 0 on.
        frame: usize,
    },
    /// Too many frames.
    #[error("a recording has at most {limit} frames")]
    Frames {
        /// The most there can be.
        limit: usize,
    },
    /// No frame.
    #[error("a recording without a frame")]
    Empty,
    /// More flows than a stamp can name.
    #[error("a recording of {seen} flows; there can be at most {limit}")]
    Flows {
        /// How many there are.
        seen: u32,
        /// The most there can be.
        limit: u32,
    },
}

/// Why frames cannot be built as configured.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A frame size outside what the engine sends.
    #[error(
        "frame size {seen_bytes} B (with FCS) is not between {smallest_bytes} and {largest_bytes} B; \
         choose a size in that range"
    )]
    FrameSize {
        /// The size asked for, with FCS (bytes).
        seen_bytes: u16,
        /// The smallest size there is (bytes).
        smallest_bytes: u16,
        /// The largest size there is (bytes).
        largest_bytes: u16,
    },
    /// The headers, and the stamp where it must be there, do not fit in the frame.
    #[error(
        "frame size {seen_bytes} B (with FCS) has no room for {headers} and the 18 B stamp; \
         the smallest size with these headers is {smallest_bytes} B"
    )]
    NoRoom {
        /// The size asked for, with FCS (bytes).
        seen_bytes: u16,
        /// The headers, in words.
        headers: String,
        /// The smallest size that holds what must be there, with FCS (bytes).
        smallest_bytes: u16,
    },
    /// A VXLAN segment above 24 bits.
    #[error("VXLAN segment {seen} asked for; segments go from 0 to 16777215")]
    Vni {
        /// The segment.
        seen: u32,
    },
    /// A mix of sizes with no entry, with a weight of zero, or too long.
    #[error("size mix: {seen}; give 1 to 64 sizes with weights from 1, together at most 4096")]
    SizeMix {
        /// What was seen.
        seen: String,
    },
    /// More tags than the engine writes.
    #[error("{seen} VLAN tags asked for; a frame carries none, one, or two (QinQ)")]
    VlanTags {
        /// The number asked for.
        seen: usize,
    },
    /// A tag outside IEEE 802.1Q's range.
    #[error("VLAN tag with id {id} and priority {priority}: ids go from 0 to 4094, priorities from 0 to 7")]
    VlanTag {
        /// The VLAN id.
        id: u16,
        /// The priority.
        priority: u8,
    },
    /// A number of flows outside what a stamp can name.
    #[error("{seen} flows asked for; there can be 1 to {limit}")]
    FlowCount {
        /// The number asked for.
        seen: u32,
        /// The most there can be.
        limit: u32,
    },
    /// Two flows would have the same addresses and ports.
    #[error(
        "{seen} flows asked for, but addresses and ports repeat after {distinct}; \
         widen a range (lengths without a common factor give the most flows)"
    )]
    FlowsRepeat {
        /// The number asked for.
        seen: u32,
        /// How many differ.
        distinct: u64,
    },
    /// A range of addresses or ports leaves its address family, its /64, or the ports.
    #[error("{field}: {count} values from {first} in steps of {step} leave the allowed range ({allowed})")]
    Range {
        /// Which field of the flow list.
        field: &'static str,
        /// The first value, in words.
        first: String,
        /// The length of the range.
        count: u32,
        /// The step.
        step: u32,
        /// What is allowed, in words.
        allowed: &'static str,
    },
    /// A MAC address that cannot be a sender's.
    #[error("source MAC address {seen} is a group address; use one whose first byte is even")]
    GroupSource {
        /// The address.
        seen: String,
    },
}
