//! What requests change on the host, and how all of it is taken back.

pub mod commands;
pub mod folders;
pub mod journals;
pub mod leases;
pub mod programs_kept;
pub mod setting;
pub mod supervise;
pub mod undo;
