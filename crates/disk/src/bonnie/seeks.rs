//! The phase "random seeks": several threads (seekers) receive block numbers through a shared pipe. Each
//! seeker reads the block, and every tenth time changes it and writes it back.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::pipe::pipe;

use super::large::{LargeFile, Slowest};
use super::large::{CHUNK, CHUNK_BYTES};
use crate::buffer::Buffer;
use crate::error::DiskError;
use crate::phase::{Moved, Watch};
use crate::random::Random;
use crate::report::Phase;
use crate::request::Edition;

/// Number of seeks per write.
const UPDATE_EVERY: u64 = 10;

/// Return the number of seekers and the number of seeks of an edition. The block numbers of all seeks fit
/// into a pipe at once (64 KiB).
const fn extent(edition: Edition) -> (usize, u64) {
    match edition {
        Edition::V1_03 => (3, 8000),
        Edition::V2_00 => (5, 8192),
    }
}

/// Run the random seeks.
pub fn run(large: &LargeFile<'_>) -> Result<Phase, DiskError> {
    let (seekers, seeks) = extent(large.asked.edition);
    let files = (0..seekers).map(|_| large.open()).collect::<Result<Vec<_>, _>>()?;
    let seen = large.prepare(&files[0])?;
    let tickets = tickets(large, seeks)?;
    let readers = (0..seekers).map(|_| tickets.try_clone()).collect::<Result<Vec<_>, _>>();
    let readers = readers.map_err(large.failed("handing out tickets for"))?;
    let ready = Barrier::new(seekers + 1);
    // Wait as the original does, so that the disk's pending work and its performance after idle time do not
    // affect the seeks.
    thread::sleep(Duration::from_millis(large.asked.rest_ms));
    let (watch, worst) = thread::scope(|scope| {
        let seek = |(file, tickets)| {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                seek(large, file, tickets)
            })
        };
        let under_way: Vec<_> = files.into_iter().zip(readers).map(seek).collect();
        let mut watch = Watch::begin(large.clock, "seeks", CHUNK_BYTES, Some(seen));
        ready.wait();
        let ended = under_way.into_iter().map(|seeker| match seeker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let worst = ended.collect::<Result<Vec<_>, _>>();
        watch.transferred();
        worst.map(|worst| (watch, worst))
    })?;
    let slowest_ns = worst.into_iter().max();
    Ok(watch.end(Moved { bytes: seeks * CHUNK_BYTES, operations: seeks, slowest_ns }))
}

fn tickets(large: &LargeFile<'_>, seeks: u64) -> Result<File, DiskError> {
    let (read, write) = pipe().map_err(|error| large.failed("making tickets for")(error.into()))?;
    let mut random = Random::new(large.asked.seed);
    let chunks = large.asked.size_bytes / CHUNK_BYTES;
    let mut all = Vec::new();
    for _ in 0..seeks {
        all.extend(u32::try_from(random.below(chunks)).unwrap_or(0).to_ne_bytes());
    }
    File::from(write).write_all(&all).map_err(large.failed("making tickets for"))?;
    Ok(File::from(read))
}

/// Run one seeker until the pipe is empty. Return the time of its slowest seek, in ns.
fn seek(large: &LargeFile<'_>, mut file: File, mut tickets: File) -> Result<u64, DiskError> {
    let mut buffer = Buffer::zeroed(CHUNK, large.asked.data);
    let mut slow = Slowest::new(large.clock);
    let mut ticket = [0; 4];
    let mut done = 0;
    while tickets.read(&mut ticket).map_err(large.failed("taking tickets for"))? == ticket.len() {
        let place = SeekFrom::Start(u64::from(u32::from_ne_bytes(ticket)) * CHUNK_BYTES);
        let once = || {
            file.seek(place)?;
            file.read_exact(buffer.bytes_mut())?;
            if done % UPDATE_EVERY == 0 {
                super::large::bump(buffer.bytes_mut(), done);
                file.seek(place)?;
                file.write_all(buffer.bytes())?;
            }
            Ok(())
        };
        slow.watch(once).map_err(large.failed("seeking in"))?;
        done += 1;
    }
    if large.flushes() {
        file.sync_all().map_err(large.failed("flushing"))?;
    }
    Ok(slow.worst_ns)
}
