//! Plain values of the kernel's interface: structures of integers that are read and written as bytes.

use std::ptr;

/// Marker for plain C structures of the kernel's interface: all byte patterns are valid values, and padding
/// does not matter.
///
/// # Safety
/// The type must be `repr(C)` and valid for every bit pattern.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ty),+ $(,)?) => {
        // SAFETY: each type is an integer, an array of integers or a `repr(C)` structure of integers.
        $(unsafe impl $crate::Plain for $name {})+
    };
}
pub(crate) use plain;

plain!(u8, u16, u32, u64, i32, i64, [u8; 16], [u32; 9], [u64; 4]);
plain!(
    libc::sockaddr_xdp,
    libc::sockaddr_ll,
    libc::xdp_mmap_offsets,
    libc::xdp_umem_reg,
    libc::xdp_statistics
);
plain!(libc::tpacket_req3, libc::tpacket_stats_v3, libc::xdp_desc);

/// Return the 32 bits as a signed number.
pub const fn signed(bits: u32) -> i32 {
    i32::from_ne_bytes(bits.to_ne_bytes())
}

/// Return the 32 bits as an unsigned number.
pub const fn unsigned(bits: i32) -> u32 {
    u32::from_ne_bytes(bits.to_ne_bytes())
}

/// Return a value with all bytes zero.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain` guarantees that all byte patterns, including zeros, are valid values.
    unsafe { std::mem::zeroed() }
}

/// Return the plain value at the start of `bytes`; `None` if there are too few bytes.
pub fn read_head<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, `read_unaligned` needs no alignment, and `Plain` makes all byte
    // patterns valid values.
    Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}
