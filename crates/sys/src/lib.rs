//! What this project asks the Linux kernel for beyond the standard library, each as a safe function over plain values where
//! that can be: sockets, shared memory, the page cache, loop devices, clocks, threads, namespaces, descriptors, taps, drivers'
//! statistics, BPF. It knows no ports, no frames and no protocol of iolab.

#![allow(unsafe_code)] // It calls the kernel by itself: each block says why it is sound.

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
pub mod seccomp;
pub mod socket;
pub mod tap;
pub mod thread;

pub use ethtool::{driver_settings, driver_statistics, queues, set_features};
pub use extents::{extents, Extent, ExtentKind};
pub use loop_device::attach_without_readahead;
pub use memory::Mapping;
pub use namespace::network_namespace_owner;
pub use plain::{read_head, signed, unsigned, zeroed, Plain};

/// The kernel's answer, or its error.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
