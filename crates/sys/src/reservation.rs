//! Persistent reservations of SCSI disks.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// scsi/sg.h.
const SG_IO: libc::c_ulong = 0x2285;
const SG_DXFER_FROM_DEV: libc::c_int = -3;
/// PERSISTENT RESERVE IN (SPC-4), which changes nothing, and its service action READ RESERVATION.
const PERSISTENT_RESERVE_IN: u8 = 0x5E;
const READ_RESERVATION: u8 = 1;
/// Length of the answer with one reservation in bytes: a header of 8 and a descriptor of 16.
const ANSWER_BYTES: u8 = 24;
const TIMEOUT_MS: libc::c_uint = 5_000;

/// `struct sg_io_hdr`.
#[repr(C)]
struct SgIo {
    interface_id: libc::c_int,
    direction: libc::c_int,
    command_bytes: libc::c_uchar,
    most_sense_bytes: libc::c_uchar,
    vectors: libc::c_ushort,
    data_bytes: libc::c_uint,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: libc::c_uint,
    flags: libc::c_uint,
    pack_id: libc::c_int,
    user: *mut libc::c_void,
    status: libc::c_uchar,
    masked_status: libc::c_uchar,
    message_status: libc::c_uchar,
    sense_bytes: libc::c_uchar,
    host_status: libc::c_ushort,
    driver_status: libc::c_ushort,
    missing_bytes: libc::c_int,
    duration_ms: libc::c_uint,
    info: libc::c_uint,
}

/// Return the key of the persistent reservation of a SCSI disk; `None` if there is none, or if the disk does not have
/// reservations.
pub fn reservation_key(device: &File) -> Option<u64> {
    let mut command = [0_u8; 10];
    command[0] = PERSISTENT_RESERVE_IN;
    command[1] = READ_RESERVATION;
    command[8] = ANSWER_BYTES;
    let mut answer = [0_u8; ANSWER_BYTES as usize];
    asked(device, &command, &mut answer).ok()?;
    parsed(&answer)
}

fn asked(device: &File, command: &[u8; 10], answer: &mut [u8; ANSWER_BYTES as usize]) -> io::Result<()> {
    let mut sense = [0_u8; 32];
    let mut request = SgIo {
        interface_id: libc::c_int::from(b'S'),
        direction: SG_DXFER_FROM_DEV,
        command_bytes: 10,
        most_sense_bytes: 32,
        vectors: 0,
        data_bytes: libc::c_uint::from(ANSWER_BYTES),
        data: answer.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        user: ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_bytes: 0,
        host_status: 0,
        driver_status: 0,
        missing_bytes: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the kernel reads 10 bytes of the command, writes at most 24 bytes of the answer and 32 of the sense data,
    // and all three outlive the call.
    super::check(unsafe { libc::ioctl(device.as_raw_fd(), SG_IO as _, &raw mut request) })?;
    if request.status != 0 || request.host_status != 0 || request.driver_status != 0 {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(())
}

/// Return the key in an answer to READ RESERVATION: generation, length of the list, and the descriptor.
fn parsed(answer: &[u8; ANSWER_BYTES as usize]) -> Option<u64> {
    let (_, rest) = answer.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let key = rest.first_chunk::<8>()?;
    (u32::from_be_bytes(*length) >= 16).then(|| u64::from_be_bytes(*key))
}

#[cfg(test)]
mod tests {
    use super::{parsed, reservation_key};

    #[test]
    fn answer_without_a_descriptor_is_no_reservation() {
        let mut answer = [0_u8; 24];
        answer[3] = 7; // generation
        assert_eq!(parsed(&answer), None);
        answer[7] = 16;
        answer[8..16].copy_from_slice(&0x1234_u64.to_be_bytes());
        assert_eq!(parsed(&answer), Some(0x1234));
    }

    #[test]
    fn file_that_is_no_scsi_disk_has_no_reservation() {
        assert_eq!(reservation_key(&std::fs::File::open("/dev/null").unwrap()), None);
    }
}
