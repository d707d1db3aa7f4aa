//! The parameters and results of `traffic.*`: ports that stay open, and trials on them.

mod ports;
mod reports;
mod trials;

pub use ports::{
    Halves, PathChoice, PathUsed, PortOpened, PortParams, TrafficClose, TrafficOpen, TrafficOpened,
};
pub use reports::{
    FlowReport, FlowSummary, ReceiverReport, SenderReport, SharedCpu, SocketCounts, Stall, StallCause,
    ThreadUse, TrafficRan,
};
pub use trials::{
    Checking, DrainParams, Flows, FrameParams, FrameRate, Order, Payload, Range, ReceiverParams, Replayed,
    SenderParams, StallRule, TrafficRecord, TrafficRecorded, TrafficRun, Transport, Tunnel, Vlan, Waiting,
};
