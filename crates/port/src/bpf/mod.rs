//! The XDP programs of ports and devices, and their attachment to interfaces.

mod attachment;
mod device;
mod live;
mod receive;

pub use attachment::Attach;
pub use device::{Device, DeviceStats, Rule, Then};
pub(crate) use live::LiveProgram;
pub(crate) use receive::ReceiveProgram;
pub use receive::{FrameMatch, WordMatch};

/// Return codes of an XDP program.
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const XDP_TX: i32 = 3;

/// Offsets of the fields of struct `xdp_md` (bytes).
mod context {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const DATA_META: i16 = 8;
    pub(super) const RX_QUEUE_INDEX: i16 = 16;
}
