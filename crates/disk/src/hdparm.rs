//! The two timings of hdparm. `-t`: reads 2-MiB blocks from the start of the device, for 3 s or up to its
//! end. `-T`: reads the first 2 MiB repeatedly from the page cache for 2 s, and subtracts the time of seeks
//! and clock readings.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::buffer::Buffer;
use crate::cache::{prepare, Behind};
use crate::error::DiskError;
use crate::phase::{Moved, Watch};
use crate::report::{Phase, Report};
use crate::request::{Cache, Data, Hdparm, Timing};
use crate::Clock;

const BLOCK: usize = 2 << 20;
/// The block size as a 64-bit number, in bytes.
const BLOCK_BYTES: u64 = BLOCK as u64;
const BUFFERED_NS: u64 = 3_000_000_000;
const CACHED_NS: u64 = 2_000_000_000;
/// Interval at which hdparm reads single bytes of each block in memory, so that the data is really accessed, in bytes.
const TOUCHED_BYTES: usize = 512;

/// Run the timings of hdparm.
pub fn run(asked: &Hdparm, clock: Clock<'_>) -> Result<Report, DiskError> {
    let flags = if asked.direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let open = OpenOptions::new().read(true).custom_flags(flags).open(&asked.device);
    let mut device = open.map_err(DiskError::at("opening", &asked.device))?;
    let behind = Behind::open(&asked.behind)?;
    let mut buffer = Buffer::zeroed(BLOCK, Data::Defined);
    let mut phases = Vec::new();
    for timing in &asked.timings {
        let phase = match timing {
            Timing::Cached => cached(&mut device, &mut buffer, clock),
            Timing::Buffered => buffered(&mut device, &mut buffer, (asked.cache, &behind), clock),
        };
        phases.push(phase.map_err(DiskError::at("reading 2 MiB at a time from", &asked.device))?);
    }
    Ok(Report { phases, ..Report::default() })
}

fn buffered(
    device: &mut File,
    buffer: &mut Buffer,
    (cache, behind): (Cache, &Behind),
    clock: Clock<'_>,
) -> io::Result<Phase> {
    let seen = prepare(device, cache, behind)?;
    device.seek(SeekFrom::Start(0))?;
    let mut watch = Watch::begin(clock, "buffered", BLOCK_BYTES, Some(seen));
    let begin_ns = clock();
    let mut operations = 0;
    while clock() - begin_ns < BUFFERED_NS {
        match read_block(device, buffer) {
            Ok(()) => operations += 1,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && operations > 0 => break,
            Err(error) => return Err(error),
        }
    }
    watch.transferred();
    Ok(watch.end(Moved { bytes: operations * BLOCK_BYTES, operations, slowest_ns: None }))
}

fn cached(device: &mut File, buffer: &mut Buffer, clock: Clock<'_>) -> io::Result<Phase> {
    device.seek(SeekFrom::Start(0))?;
    read_block(device, buffer)?;
    let seen = prepare(device, Cache::AsLeft, &Behind::default())?;
    let mut watch = Watch::begin(clock, "cached", BLOCK_BYTES, Some(seen));
    let begin_ns = clock();
    let mut operations = 0;
    while clock() - begin_ns < CACHED_NS {
        device.seek(SeekFrom::Start(0))?;
        read_block(device, buffer)?;
        operations += 1;
    }
    watch.transferred();
    let mut phase = watch.end(Moved { bytes: operations * BLOCK_BYTES, operations, slowest_ns: None });
    let begin_ns = clock();
    for _ in 0..operations {
        device.seek(SeekFrom::Start(0))?;
        std::hint::black_box(clock());
    }
    phase.duration_ns = phase.duration_ns.saturating_sub(clock() - begin_ns).max(1);
    phase.steps.transfer_ns = phase.duration_ns;
    Ok(phase)
}

fn read_block(device: &mut File, buffer: &mut Buffer) -> io::Result<()> {
    device.read_exact(buffer.bytes_mut())?;
    for byte in buffer.bytes_mut().iter_mut().step_by(TOUCHED_BYTES) {
        *byte &= 1;
    }
    std::hint::black_box(buffer.bytes());
    Ok(())
}
