//! Linux system interfaces beyond the standard library, as safe functions over plain values where possible:
//! sockets, shared memory, the page cache, loop devices, reservations, clocks, threads, namespaces, descriptors, taps,
//! driver statistics, BPF. This crate has no code for iolab's ports, frames and protocols.

#![allow(unsafe_code)] // This crate makes system calls: each block states why it is sound.

pub mod bpf;
pub mod clock;
pub mod descriptors;
mod ethtool;
pub mod execution;
mod extents;
pub mod landlock;
mod loop_device;
mod memory;
mod namespace;
pub mod page_cache;
mod plain;
mod reservation;
pub mod seccomp;
pub mod socket;
pub mod tap;
pub mod thread;

pub use ethtool::{driver_settings, driver_statistics, queues, set_features};
pub use extents::{extents, Extent, ExtentKind};
pub use loop_device::{attach_without_readahead, disk_sequence};
pub use memory::Mapping;
pub use namespace::network_namespace_owner;
pub use plain::{read_head, signed, unsigned, zeroed, Plain};
pub use reservation::reservation_key;

/// Return the result of a system call, or the error if the result is negative.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
