//! Messages between the iolab controller and its agents, and the lines that carry them.
//!
//! These types define the messages; `contract/agent-v1.md` explains them, and the controller's classes are generated
//! from their schema (feature `schema`). This crate does no I/O and reads no clock.

pub mod calls;
pub mod capture;
pub mod device;
pub mod errors;
pub mod facts;
pub mod files;
pub mod framing;
pub mod hello;
pub mod histogram;
pub mod impairment;
pub mod lease;
pub mod observations;
pub mod relay;
pub mod requests;
pub mod responses;
pub mod results;
pub mod traffic;
pub mod undo;
pub mod watch;
pub mod wire;

pub use errors::{ErrorCode, ErrorData, ErrorObject};
pub use framing::{Frame, LineSplitter, LINE_LIMIT_BYTES};
pub use hello::{Hello, Notification, Predecessor};
pub use requests::{parse_request, Refusal, Request};
pub use responses::Response;
pub use undo::Undo;

/// Version of the protocol of this crate.
pub const PROTOCOL_VERSION: &str = "1.6";
