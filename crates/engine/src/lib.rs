//! The decisions of the packet engine: when to send each frame, and the fate of each received frame.
//!
//! This crate does no I/O, reads no clock and starts no thread. Time is an argument, so the same code makes the same
//! decisions in real and in virtual time. Memory is allocated at construction; calls per frame neither allocate nor
//! use floating point.
//!
//! The transmit loop of a port, with hypothetical `clock` and `port`:
//!
//! ```text
//! while { let now = clock(); match generator.poll(now) {
//!     Decision::Send if port.room() == 0 => { generator.note_blocked(); true }
//!     Decision::Send => {            // poll again with the same `now` until the result is not Send: that is a burst
//!         let plan = generator.take(now);
//!         template.emit(plan.size, plan.flow, plan.sequence, plan.tx_time.0, port.next_buffer())?;
//!         true
//!     }
//!     Decision::Wait(until) => { port.flush(); wait(until); true }   // refused frames: retract() in reverse order
//!     Decision::Done => false,
//! } } {}
//! ```
//!
//! A receive loop passes every frame to [`Receiver::receive`]. After the last transmission, [`Drain`] determines how
//! long to receive; then [`Receiver::finish`] computes the final counts from those of the receiver and the generator.

mod arrivals;
mod drain;
mod error;
mod gap_frames;
mod gaps;
mod generator;
mod histogram;
pub mod impairment;
mod monitor;
mod pacer;
mod random;
mod rate;
mod receiver;
mod schedule;
mod share;
mod simulation;
mod slices;
mod time;

pub use arrivals::{Arrivals, ArrivalsReport};
pub use drain::{Drain, DrainState};
pub use error::EngineError;
pub use gap_frames::{write_gap_frame, GapFrames};
pub use gaps::Departures;
pub use generator::{FramePlan, Generator, GeneratorReport};
pub use histogram::{Bucket, Histogram};
pub use monitor::{
    Bins, BinsReport, BucketCurve, BufferLoss, Buffers, CurvePoint, Kept, Line, LineSpan, Observed, Observer,
    ObserverConfig, Trains, TrainsReport, View, VirtualLine, Windows,
};
pub use pacer::{
    Decision, Limit, Pacer, PacerConfig, PacerStats, StallCause, StallEntry, StallPolicy, LONGEST_BURST,
    STALL_LOG_ENTRIES,
};
pub use random::{Draws, Random};
pub use rate::Rate;
pub use receiver::{FlowReport, Receiver, ReceiverConfig, ReceiverReport, ReceiverTotals, StrayCounts};
pub use schedule::{Order, Schedule};
pub use share::Share;
pub use simulation::{simulate, Host, PathCounts};
pub use slices::{Slices, SLICES};
pub use time::Nanos;
