//! In-kernel traffic counters of an interface: a program counts bytes and frames per microsecond in memory shared
//! with this process, and per flow in longer windows. Frames are not delayed or changed.

mod flows;
mod kernel;
mod program;
mod stamps;

pub use flows::FlowKey;
pub use kernel::{Beyond, KernelWatch, LAG_US};

/// Length of the ring of bins (us), a power of two. Kernels before 6.4 limit a map value to 4 MiB.
const RING_US: u64 = 1 << 19;
/// Number of windows per flow in the ring of flow counters, a power of two.
const FLOW_RING: u64 = 1 << 15;
/// Number of flow slots, including one for all other flows: a power of two, so that their windows fit in one map
/// value.
const FLOW_SLOTS: usize = 16;
/// Maximum number of flows with a separate slot.
pub const MOST_FLOWS: usize = FLOW_SLOTS - 1;
/// Minimum window of flow counters: the ring must cover the time by which the reader stays behind the clock (us).
pub const SHORTEST_FLOW_WINDOW_US: u64 = 10;
/// Number of low bits of a bin that count frames; the bits above count bytes.
const FRAME_BITS: i32 = 24;

/// Offsets in the words that the program and this process share (bytes).
mod shared {
    /// Microsecond before which all bins have been read; written by the reader.
    pub(super) const BASE_US: i16 = 0;
    /// Bytes of headers and VLAN tags that are sent on a line but are not part of the packets of the stack.
    pub(super) const ADDED_BYTES: i16 = 8;
    /// Frames that are sent on a line in excess of the packets of the stack.
    pub(super) const ADDED_FRAMES: i16 = 16;
    /// Frames and bytes outside the bins, because the reader was too far behind.
    pub(super) const LOST_FRAMES: i16 = 24;
    pub(super) const LOST_BYTES: i16 = 32;
    /// Number of flows that have requested a slot.
    pub(super) const FLOWS: i16 = 40;
    /// Offset to subtract from a timestamp to get the program's clock; written by the reader (ns).
    pub(super) const STAMPS_AHEAD_NS: i16 = 48;
    /// Frames without a plausible timestamp.
    pub(super) const UNSTAMPED_FRAMES: i16 = 56;
    /// Flow keys, one after the other.
    pub(super) const FLOW_KEYS: i16 = 64;
    /// Length of a key: source, destination, ports, protocol, version (bytes).
    pub(super) const KEY_BYTES: usize = 40;
    pub(super) const BYTES: usize = FLOW_KEYS as usize + super::FLOW_SLOTS * KEY_BYTES;
}
