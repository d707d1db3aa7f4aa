//! Programs that are attached to a hook of an interface's network stack by TCX (Linux 6.6).

use std::io;

use super::{call, Place, Program};
use crate::plain::plain;
use crate::unsigned;

const PROG_QUERY: u32 = 16;
const OBJ_GET_INFO: u32 = 15;
/// Maximum number of programs at a hook (`BPF_MPROG_MAX`).
const MAX_PROGRAMS: usize = 64;
/// Offset and length of the name in struct `bpf_prog_info` (bytes).
const NAME_AT: usize = 64;
const NAME_BYTES: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Query {
    interface: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    unused: u32,
    program_flags: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct InfoSpec {
    object: u32,
    info_bytes: u32,
    info: u64,
}

plain!(Query, InfoSpec);

/// Return the names and IDs of the programs at a hook of the interface with this index, in their order; empty if the
/// kernel does not support TCX.
///
/// # Errors
/// Returns the kernel's error if the interface does not exist or the process lacks permission.
pub fn attached_programs(interface: u32, place: Place) -> io::Result<Vec<(String, u32)>> {
    let mut ids = [0u32; MAX_PROGRAMS];
    let mut query = Query {
        interface,
        attach_type: place as u32,
        programs: ids.as_mut_ptr() as u64,
        count: u32::try_from(MAX_PROGRAMS).unwrap_or(0),
        ..Query::default()
    };
    // SAFETY: the kernel writes at most `count` IDs, for which there is room; `ids` outlives the call.
    match unsafe { call(PROG_QUERY, &mut query) } {
        Ok(_) => {}
        Err(errno) if matches!(errno.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => return Ok(vec![]),
        Err(errno) => return Err(errno),
    }
    let found = ids.iter().copied().take(query.count as usize);
    Ok(found.map(|id| (name_of(id).unwrap_or_default(), id)).collect())
}

/// Return the name of the loaded program with this ID.
fn name_of(id: u32) -> io::Result<String> {
    let program = Program::by_id(id)?;
    let mut info = [0u8; NAME_AT + NAME_BYTES];
    let info_bytes = u32::try_from(info.len()).unwrap_or(0);
    let object = unsigned(program.as_raw_fd());
    let mut spec = InfoSpec { object, info_bytes, info: info.as_mut_ptr() as u64 };
    // SAFETY: the kernel writes at most `info_bytes` bytes to `info`, which outlives the call.
    unsafe { call(OBJ_GET_INFO, &mut spec) }?;
    let name = info[NAME_AT..].iter().copied().take_while(|&byte| byte != 0).collect();
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}
