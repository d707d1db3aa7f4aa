//! Round trips between two machines: requests and responses over TCP or UDP, and echoes over ICMP or UDP. One
//! end serves; the other end sends requests and measures the time. Both timestamps of a round trip come from
//! the kernel of the requesting end.

mod echo;
mod error;
mod packet;
mod probes;
mod report;
mod request;
mod schedule;
mod serve;
mod slices;
mod socket;
mod transactions;

pub use error::RoundTripError;
pub use report::{ProbesReport, Report, TransactionsReport};
pub use request::{Probes, Protocol, Request, Serve, Transactions};
pub use slices::Slice;

/// Execute a request. The function calls `ready` as soon as a server accepts requests; a server then runs
/// until its process is killed.
///
/// # Errors
/// Returns the error of the operating system, with the operation that failed.
pub fn run(request: &Request, ready: &dyn Fn()) -> Result<Report, RoundTripError> {
    match request {
        Request::Serve(asked) => serve::serve(asked, ready).map(|()| Report::Served),
        Request::Transactions(asked) => transactions::run(asked).map(Report::Transactions),
        Request::Probes(asked) => probes::run(asked).map(Report::Probes),
    }
}
