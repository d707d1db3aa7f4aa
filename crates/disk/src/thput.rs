//! thput-fsys (AIST, Gfarm): for each buffer size, one timed phase creates, writes, flushes and closes a new
//! file, and a second timed phase opens, reads and closes the file.

use std::io::{Read, Write};

use rustix::fs::OFlags;

use crate::buffer::Buffer;
use crate::cache::{prepare, Behind};
use crate::error::DiskError;
use crate::folder::{Folder, Passing};
use crate::phase::{Moved, Watch};
use crate::report::{Phase, Report};
use crate::request::Thput;
use crate::Clock;

/// Run thput-fsys.
pub fn run(asked: &Thput, clock: Clock<'_>) -> Result<Report, DiskError> {
    let folder = Folder::open(&asked.folder)?;
    folder.check_room(asked.size_bytes)?;
    let behind = Behind::open(&asked.behind)?;
    let mut phases = Vec::new();
    for &buffer_bytes in &asked.buffers_bytes {
        let length = usize::try_from(buffer_bytes).unwrap_or(0);
        if length == 0 || asked.size_bytes % buffer_bytes != 0 {
            return Err(DiskError::refused(format!(
                "a file of {} bytes is no multiple of a buffer of {buffer_bytes} bytes",
                asked.size_bytes
            )));
        }
        let file = Passing::new(&folder, "thput-fsys");
        let mut buffer = Buffer::new(length, asked.data);
        phases.push(write(asked, &folder, file.name(), &mut buffer, clock)?);
        phases.push(read(asked, (&folder, file.name()), &behind, &mut buffer, clock)?);
    }
    Ok(Report { phases, ..Report::default() })
}

fn direct(asked: &Thput) -> OFlags {
    if asked.direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    }
}

fn write(
    asked: &Thput,
    folder: &Folder,
    name: &str,
    buffer: &mut Buffer,
    clock: Clock<'_>,
) -> Result<Phase, DiskError> {
    let path = folder.path().join(name);
    let block_bytes = buffer.bytes().len() as u64;
    let operations = asked.size_bytes / block_bytes;
    let mut watch = Watch::begin(clock, "write", block_bytes, None);
    let mut file = folder.create(name, direct(asked))?;
    watch.opened();
    for _ in 0..operations {
        file.write_all(buffer.next()).map_err(DiskError::at("writing", &path))?;
    }
    watch.transferred();
    watch.flush(&file).map_err(DiskError::at("flushing", &path))?;
    watch.close(file);
    Ok(watch.end(Moved { bytes: asked.size_bytes, operations, slowest_ns: None }))
}

fn read(
    asked: &Thput,
    (folder, name): (&Folder, &str),
    behind: &Behind,
    buffer: &mut Buffer,
    clock: Clock<'_>,
) -> Result<Phase, DiskError> {
    let path = folder.path().join(name);
    let seen = prepare(&folder.find(name, OFlags::RDWR)?, asked.cache, behind);
    let seen = seen.map_err(DiskError::at("dropping from the page cache", &path))?;
    let block_bytes = buffer.bytes().len() as u64;
    let operations = asked.size_bytes / block_bytes;
    let mut watch = Watch::begin(clock, "read", block_bytes, Some(seen));
    let mut file = folder.find(name, OFlags::RDONLY | direct(asked))?;
    watch.opened();
    for _ in 0..operations {
        file.read_exact(buffer.bytes_mut()).map_err(DiskError::at("reading", &path))?;
    }
    watch.transferred();
    watch.close(file);
    Ok(watch.end(Moved { bytes: asked.size_bytes, operations, slowest_ns: None }))
}
