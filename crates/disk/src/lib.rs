//! Disk programs by their published definitions: thput-fsys, bonnie++ (versions 1.03 and 2.00), the two
//! timings of hdparm, and stamped blocks that show which acknowledged writes a storage system has kept. Each
//! program takes a [`Request`] and returns a [`Report`] in bytes and nanoseconds; the clock is an argument.
//!
//! The programs write only to files that this crate created in a folder of the user ([`Folder`]), or to an unused block
//! device that the user named by its serial number ([`claim`], [`existing`]). The programs open no other file or device
//! for writing.

mod below;
mod bonnie;
mod buffer;
mod cache;
pub mod claim;
mod device;
mod error;
pub mod existing;
mod folder;
mod hdparm;
mod phase;
mod ping;
mod random;
mod report;
mod request;
mod stamps;
mod thput;

pub use device::{Obstacle, ObstacleKind};
pub use error::DiskError;
pub use folder::Folder;
pub use ping::{Answer, Condition};
pub use report::{CacheState, Examined, Phase, ProcessIo, Report, Residency, Steps, Verified};
pub use request::{
    Bonnie, Cache, Claim, Cool, Data, Edition, Examine, Hdparm, Peer, Ping, Request, Stamp, Target, Thput,
    Timing, Verify,
};

/// A monotonic clock in ns.
pub type Clock<'a> = &'a (dyn Fn() -> u64 + Sync);

/// Execute a request. While stamps are written, `tell` receives a line for each flush that the kernel
/// acknowledged.
///
/// # Errors
/// Returns the reason for a refusal, or the error of a system call; files that the program created are then
/// deleted.
pub fn run(request: &Request, clock: Clock<'_>, tell: &mut dyn FnMut(&str)) -> Result<Report, DiskError> {
    match request {
        Request::Thput(asked) => thput::run(asked, clock),
        Request::Bonnie(asked) => bonnie::run(asked, clock),
        Request::Hdparm(asked) => hdparm::run(asked, clock),
        Request::Stamp(asked) => stamps::write(asked, clock, tell),
        Request::Verify(asked) => stamps::verify(asked),
        Request::Cool(asked) => cache::cool(asked),
        Request::Claim(asked) => claim::check(asked).map(|()| Report::default()),
        Request::Examine(asked) => {
            Ok(Report { devices: vec![existing::examine(asked)?], ..Report::default() })
        }
        Request::Disks(_) => Ok(Report { devices: existing::all(), ..Report::default() }),
        Request::Same(asked) => existing::open(&asked.record, false).map(|_| Report::default()),
        Request::Ping(asked) => Ok(Report { answer: Some(ping::ask(asked)), ..Report::default() }),
    }
}
