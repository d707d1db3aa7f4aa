//! A relay: what a socket or terminal says, passed on to the controller, and back. What is said is not looked at.

mod connect;
mod inbox;
mod link;
mod outbox;

pub use connect::{reach, Line, Unreached};
pub use link::{Link, Listener};
pub use outbox::{Offer, Ticket, TAKEN_BYTES};
