//! Trials in real time: threads that send by the engine's schedule and account for received frames, through ports
//! that stay open between trials. The protocol defines parameters and results, the engine decides transmit times, and
//! the port sends the frames. This crate does not handle namespaces: ports open in the namespace of the calling
//! thread.

#![forbid(unsafe_code)]

mod capture;
mod cast;
mod contents;
mod device;
mod faults;
mod forwarder;
mod frames;
mod headers;
mod held;
mod impairments;
mod observe;
mod ports;
mod receive;
mod recordings;
mod report;
mod rest;
mod send;
mod set;
mod trial;
mod watch;
mod wire;

pub use capture::{start_capture, RunningCapture};
pub use device::RunningDevice;
pub use impairments::{chain, seed_of_way, stage_seeds};
pub use iolab_port::{Arrival, End, PortRedirect};
pub use ports::{attached_program, OpenPort};
pub use set::PortSet;
pub use watch::{check as check_watch, open_eye, Eye, RunningWatch};
pub use wire::{attach_to_port, open_end, open_on_port, Carrier, RunningWire, Steered, Steering};
