//! Messages between the iolab controller and its agents, and the lines that carry them.
//!
//! These types are the definition; `contract/agent-v1.md` says what they mean, and what the controller has of them is generated
//! from their schema (feature `schema`). No I/O and no clock.

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

/// The version of the protocol this crate speaks.
pub const PROTOCOL_VERSION: &str = "1.6";
