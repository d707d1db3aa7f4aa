//! The packet engine's decisions: when to send which frame, and what became of it.
//!
//! Does no I/O, reads no clock and starts no thread: time is an argument, so that the same code runs in real time and,
//! decision for decision, in virtual time. Memory is taken at construction; the calls per frame neither allocate nor
//! use floating point.

mod device;
mod error;
mod generator;
mod histogram;
mod pacer;
mod random;
mod rate;
mod receiver;
mod schedule;
mod simulation;
mod time;

pub use device::{
    Chain, Device, Fate, FixedDelay, RandomDuplicate, RandomExtraDelay, RandomLoss, Stalls, TokenBucket,
    Wire, PARTS,
};
pub use error::EngineError;
pub use generator::{FramePlan, Generator, GeneratorReport};
pub use histogram::{Bucket, Histogram};
pub use pacer::{
    Decision, Limit, Pacer, PacerConfig, PacerStats, StallCause, StallEntry, StallPolicy, LONGEST_BURST,
    STALL_LOG_ENTRIES,
};
pub use random::Random;
pub use rate::Rate;
pub use receiver::{FlowReport, Receiver, ReceiverConfig, ReceiverReport, ReceiverTotals, StrayCounts};
pub use schedule::{Order, Schedule};
pub use simulation::{simulate, Host, WireCounts};
pub use time::Nanos;
