//! Length checks of buffers before a header is read or written.

use crate::error::WireError;

/// Return `bytes` if their length is at least `needed_bytes`, else an error with both lengths.
#[inline]
pub fn whole<'a>(header: &'static str, needed_bytes: usize, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
    if bytes.len() < needed_bytes {
        return Err(WireError::Short { header, needed_bytes, seen_bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Return the first `N` bytes of `buffer` for writing a header of that length.
#[inline]
pub fn room<'a, const N: usize>(
    header: &'static str,
    buffer: &'a mut [u8],
) -> Result<&'a mut [u8; N], WireError> {
    let seen_bytes = buffer.len();
    buffer.first_chunk_mut::<N>().ok_or(WireError::Short { header, needed_bytes: N, seen_bytes })
}
