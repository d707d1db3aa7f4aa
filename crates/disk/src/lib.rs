//! Disk programs by their published definitions: thput-fsys, bonnie++ (as 1.03 and as 2.00 define it), hdparm's two
//! timings, and stamped blocks that show which acknowledged writes a store has kept. Each takes a [`Request`] and gives
//! a [`Report`] in bytes and nanoseconds; time is an argument.
//!
//! What is written is written to files that this crate made, in a folder of the user's own ([`Folder`]), or to a block
//! device that nothing uses and that the user named by its serial number ([`claim`]). Nothing else is opened for
//! writing.

mod below;
mod bonnie;
mod buffer;
mod cache;
pub mod claim;
mod error;
mod folder;
mod hdparm;
mod phase;
mod ping;
mod random;
mod report;
mod request;
mod stamps;
mod thput;

pub use error::DiskError;
pub use folder::Folder;
pub use ping::{Answer, Condition};
pub use report::{CacheState, Phase, ProcessIo, Report, Residency, Steps, Verified};
pub use request::{
    Bonnie, Cache, Claim, Cool, Data, Edition, Hdparm, Peer, Ping, Request, Stamp, Target, Thput, Timing,
    Verify,
};

/// A clock that only goes forward. (ns)
pub type Clock<'a> = &'a (dyn Fn() -> u64 + Sync);

/// Carries a request out. `tell` gets, while stamps are written, a line for each flush that the kernel acknowledged.
///
/// # Errors
/// What was refused, or what the system said; files that the program made are gone then.
pub fn run(request: &Request, clock: Clock<'_>, tell: &mut dyn FnMut(&str)) -> Result<Report, DiskError> {
    match request {
        Request::Thput(asked) => thput::run(asked, clock),
        Request::Bonnie(asked) => bonnie::run(asked, clock),
        Request::Hdparm(asked) => hdparm::run(asked, clock),
        Request::Stamp(asked) => stamps::write(asked, clock, tell),
        Request::Verify(asked) => stamps::verify(asked),
        Request::Cool(asked) => cache::cool(asked),
        Request::Claim(asked) => claim::check(asked).map(|()| Report::default()),
        Request::Ping(asked) => Ok(Report { answer: Some(ping::ask(asked)), ..Report::default() }),
    }
}
