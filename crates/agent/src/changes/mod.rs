//! Changes that requests make to the host, and the undo of these changes.

pub mod commands;
pub mod folders;
pub mod journals;
pub mod leases;
pub mod programs_kept;
pub mod setting;
pub mod supervise;
pub mod undo;
