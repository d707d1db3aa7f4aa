//! Access to the Linux kernel, and conversion of its errors.

pub mod clock;
pub mod faults;
pub mod macvtap;
pub mod netns;
pub mod open_files;
pub mod packets;
pub mod procfs;
pub mod rootless;
pub mod sync;
