//! Counts what passes an interface, in the kernel: a program bins bytes and frames by microseconds into memory that is
//! shared with this process, and by flow into longer windows. Nothing is in the way of the frames.

mod attachment;
mod clsact;
mod flows;
mod kernel;
mod packet;
mod program;
mod stamps;

pub use attachment::{Hook, Mechanism};
pub use flows::FlowKey;
pub use kernel::{Beyond, KernelWatch, LAG_US};

/// Microseconds that the ring of a program holds, a power of two. Kernels before 6.4 make no larger values than 4 MiB.
const RING_US: u64 = 1 << 19;
/// Windows of each flow that the ring of flows holds, a power of two.
const FLOW_RING: u64 = 1 << 15;
/// Flows that are counted apart, and one for the rest: a power of two, so that their windows lie in one value.
const FLOW_SLOTS: usize = 16;
/// Most flows that are counted apart.
pub const MOST_FLOWS: usize = FLOW_SLOTS - 1;
/// Shortest window in which flows are counted apart: their ring must hold what the reader lags behind. (us)
pub const SHORTEST_FLOW_WINDOW_US: u64 = 10;
/// Of a bin: so many bits count frames, those above them bytes.
const FRAME_BITS: i32 = 24;

/// Places in the words that the program and this process share.
mod shared {
    /// The microsecond before which all bins are read: the reader's to set.
    pub(super) const BASE_US: i16 = 0;
    /// Bytes of headers and tags that a line carries and the packets of the stack do not.
    pub(super) const ADDED_BYTES: i16 = 8;
    /// Frames that a line carries beyond the packets of the stack.
    pub(super) const ADDED_FRAMES: i16 = 16;
    /// Frames and bytes that have no bin: the reader was too far behind.
    pub(super) const LOST_FRAMES: i16 = 24;
    pub(super) const LOST_BYTES: i16 = 32;
    /// How many flows have asked for a place.
    pub(super) const FLOWS: i16 = 40;
    /// What to take from a stamp to get the program's clock; the reader's to set. (ns)
    pub(super) const STAMPS_AHEAD_NS: i16 = 48;
    /// Frames without a stamp that can be right.
    pub(super) const UNSTAMPED_FRAMES: i16 = 56;
    /// The keys of flows, one after the other.
    pub(super) const FLOW_KEYS: i16 = 64;
    /// A key: source, destination, ports, protocol, version.
    pub(super) const KEY_BYTES: usize = 40;
    pub(super) const BYTES: usize = FLOW_KEYS as usize + super::FLOW_SLOTS * KEY_BYTES;
}
