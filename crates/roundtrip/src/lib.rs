//! Round trips between two machines: request and response over TCP or UDP, and echoes over ICMP or UDP. One end serves,
//! the other asks and takes the time. Both times of a round trip are of the asking end's kernel.

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

/// Carries a request out. `ready` is called as soon as a server can be asked; a server then goes on until it is ended.
///
/// # Errors
/// What the system said, and to what.
pub fn run(request: &Request, ready: &dyn Fn()) -> Result<Report, RoundTripError> {
    match request {
        Request::Serve(asked) => serve::serve(asked, ready).map(|()| Report::Served),
        Request::Transactions(asked) => transactions::run(asked).map(Report::Transactions),
        Request::Probes(asked) => probes::run(asked).map(Report::Probes),
    }
}
