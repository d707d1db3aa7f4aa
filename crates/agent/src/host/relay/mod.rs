//! Relays: data from a socket or terminal are passed to the controller, and data from the controller are
//! passed back. The agent does not interpret the messages.

mod connect;
mod inbox;
mod link;
mod outbox;

pub use connect::{reach, Line, Unreached};
pub use link::{Link, Listener};
pub use outbox::{Offer, Ticket, TAKEN_BYTES};
