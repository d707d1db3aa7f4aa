//! XDP programs written here as instructions and loaded by bpf(2): no compiler, no libbpf, no BTF at the user's.

mod assembler;
mod attachment;
mod device;
mod drop_reasons;
mod kernel;
mod live;
mod receive;

pub use attachment::Attach;
pub use device::{lost_randomly, Device, DeviceStats, Rule, Then};
pub use drop_reasons::DropReasons;
pub use kernel::keep_program;
pub(crate) use live::LiveProgram;
pub(crate) use receive::ReceiveProgram;
pub use receive::{FrameMatch, WordMatch};

/// What a program answers for a frame.
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const XDP_TX: i32 = 3;

/// Fields of struct xdp_md. [bytes from its start]
mod context {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const DATA_META: i16 = 8;
    pub(super) const RX_QUEUE_INDEX: i16 = 16;
}
