//! The XDP programs of ports and devices, and what hangs them on interfaces.

mod attachment;
mod device;
mod live;
mod receive;

pub use attachment::Attach;
pub use device::{Device, DeviceStats, Rule, Then};
pub(crate) use live::LiveProgram;
pub(crate) use receive::ReceiveProgram;
pub use receive::{FrameMatch, WordMatch};

/// What a program answers for a frame.
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const XDP_TX: i32 = 3;

/// Fields of struct `xdp_md`. (bytes from its start)
mod context {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const DATA_META: i16 = 8;
    pub(super) const RX_QUEUE_INDEX: i16 = 16;
}
