//! The packet engine's decisions: when to send which frame, and what became of it.
//!
//! Does no I/O, reads no clock and starts no thread: time is an argument, so that the same code runs in real time and,
//! decision for decision, in virtual time. Memory is taken at construction; the calls per frame neither allocate nor
//! use floating point.
//!
//! The sending loop of a port, with `clock` and `port` made up:
//!
//! ```text
//! while { let now = clock(); match generator.poll(now) {
//!     Decision::Send if port.room() == 0 => { generator.note_blocked(); true }
//!     Decision::Send => {            // poll again with the same `now` until it no longer says Send: that is a burst
//!         let plan = generator.take(now);
//!         template.emit(plan.size, plan.flow, plan.sequence, plan.tx_time.0, port.next_buffer())?;
//!         true
//!     }
//!     Decision::Wait(until) => { port.flush(); wait(until); true }   // refused frames: retract(), the last one first
//!     Decision::Done => false,
//! } } {}
//! ```
//!
//! A receiving loop hands every frame to [`Receiver::receive`]. When sending is over, [`Drain`] says how long to go on
//! receiving; then the receiver is closed against the generator's counts with [`Receiver::finish`].

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
