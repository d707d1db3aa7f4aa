//! Plain values of the kernel's interface: structures of integers that are read and written as bytes.

use std::ptr;

/// Marks plain C structures of the kernel's interface: any bytes are a valid value and there is no padding that
/// matters.
///
/// # Safety
/// The type must be `repr(C)` and valid for every bit pattern.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ty),+ $(,)?) => {
        // SAFETY: each is an integer, an array of integers or a `repr(C)` structure of integers.
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

/// The same 32 bits as a signed number.
pub const fn signed(bits: u32) -> i32 {
    i32::from_ne_bytes(bits.to_ne_bytes())
}

/// The same 32 bits as an unsigned number.
pub const fn unsigned(bits: i32) -> u32 {
    u32::from_ne_bytes(bits.to_ne_bytes())
}

/// A value whose every byte is zero.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain` promises that any bytes, so also zeros, are a valid value.
    unsafe { std::mem::zeroed() }
}

/// The plain value at the head of `bytes`, if they are enough.
pub fn read_head<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, `read_unaligned` needs no alignment, `Plain` makes any bytes a value.
    Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}
