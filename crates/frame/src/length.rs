//! Bytes that are as long as a header says, to be read or to be written; else the error that tells what is missing.

use crate::error::WireError;

/// `bytes`, of which at least `needed_bytes` are there.
#[inline]
pub fn whole<'a>(header: &'static str, needed_bytes: usize, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
    if bytes.len() < needed_bytes {
        return Err(WireError::Short { header, needed_bytes, seen_bytes: bytes.len() });
    }
    Ok(bytes)
}

/// The beginning of `buffer`, where a header of `N` bytes is written.
#[inline]
pub fn room<'a, const N: usize>(
    header: &'static str,
    buffer: &'a mut [u8],
) -> Result<&'a mut [u8; N], WireError> {
    let seen_bytes = buffer.len();
    buffer.first_chunk_mut::<N>().ok_or(WireError::Short { header, needed_bytes: N, seen_bytes })
}
