//! Stamped blocks: each block contains its run, its position and its batch. After a crash the stamps show
//! whether the storage kept all blocks whose flush it had acknowledged.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use iolab_sys::descriptors::inherited;
use rustix::fs::OFlags;

use crate::below::Below;
use crate::buffer::Buffer;
use crate::cache::{prepare, Behind};
use crate::claim;
use crate::error::DiskError;
use crate::folder::Folder;
use crate::phase::{Moved, Watch};
use crate::random::Random;
use crate::report::{Report, Verified};
use crate::request::{Cache, Data, Stamp, Target, Verify};
use crate::Clock;

const MAGIC: &[u8; 8] = b"iolabstp";
/// Length of a stamp in bytes: magic number, run, block, batch and checksum, 8 bytes each.
const STAMP_BYTES: usize = 40;
/// Maximum number of bad blocks in the report.
const MOST_NAMED: usize = 16;

/// Content of a block's stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamped {
    run: u64,
    block: u64,
    batch: u64,
}

/// Write all blocks in each pass, and report each batch after its flush: `{"acknowledged":N}`. The operations
/// of the phase are the flushes.
pub fn write(asked: &Stamp, clock: Clock<'_>, tell: &mut dyn FnMut(&str)) -> Result<Report, DiskError> {
    let mut buffer = block_buffer(asked)?;
    let (file, path) = open(asked, true)?;
    let mut watch = Watch::begin(clock, "stamp", asked.block_bytes, None);
    watch.opened();
    let mut batch = 0;
    for _ in 0..asked.passes {
        for first in (0..asked.blocks).step_by(usize::try_from(asked.batch).unwrap_or(usize::MAX)) {
            batch += 1;
            for block in first..asked.blocks.min(first + asked.batch) {
                stamp(buffer.bytes_mut(), Stamped { run: asked.run, block, batch });
                let place = block * asked.block_bytes;
                file.write_all_at(buffer.bytes(), place)
                    .map_err(DiskError::at("writing stamps to", &path))?;
            }
            file.sync_data().map_err(DiskError::at("flushing", &path))?;
            tell(&format!("{{\"acknowledged\":{batch}}}"));
        }
    }
    watch.transferred();
    let bytes = asked.passes * asked.blocks * asked.block_bytes;
    let phase = watch.end(Moved { bytes, operations: batch, slowest_ns: None });
    Ok(Report { phases: vec![phase], ..Report::default() })
}

/// Verify the blocks of acknowledged batches. The blocks are read from the target, if possible without the page cache,
/// or from the disk below the target's backing file.
pub fn verify(asked: &Verify) -> Result<Report, DiskError> {
    let stamps = &asked.stamp;
    let mut buffer = block_buffer(stamps)?;
    let (store, path) = Store::open(asked)?;
    let mut found = Verified::default();
    for block in 0..stamps.blocks {
        let Some(wanted) = last_batch(stamps, block, asked.acknowledged) else { continue };
        let there = store.read_at(buffer.bytes_mut(), block * stamps.block_bytes);
        let there = there.map_err(DiskError::at("reading stamps of", &path))?;
        count(&mut found, stamps, block, wanted, if there { buffer.bytes() } else { &[] });
    }
    Ok(Report { verified: Some(found), ..Report::default() })
}

/// Source of the blocks to verify.
enum Store {
    /// The target itself.
    Written(File),
    /// The disk below the target's backing file.
    Below(Below),
}

impl Store {
    fn open(asked: &Verify) -> Result<(Self, PathBuf), DiskError> {
        if let Some(path) = &asked.below {
            let below = Below::of(path)?;
            let node = below.node().to_owned();
            return Ok((Self::Below(below), node));
        }
        let (file, path) = open(&asked.stamp, false)?;
        prepare(&file, Cache::Cold, &Behind::default())
            .map_err(DiskError::at("dropping from the page cache", &path))?;
        Ok((Self::Written(file), path))
    }

    /// Read a block. Return false if the source has no data for it.
    fn read_at(&self, block: &mut [u8], place: u64) -> io::Result<bool> {
        let read = match self {
            Self::Written(file) => file.read_exact_at(block, place).map(|()| true),
            Self::Below(below) => below.read_at(block, place),
        };
        match read {
            // Storage that lost blocks may be shorter or return EIO.
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof || error.raw_os_error() == Some(EIO) =>
            {
                Ok(false)
            }
            other => other,
        }
    }
}

const EIO: i32 = 5;

fn block_buffer(asked: &Stamp) -> Result<Buffer, DiskError> {
    let length = usize::try_from(asked.block_bytes).unwrap_or(0);
    if length < 512 || !length.is_power_of_two() || length > 1 << 20 || asked.blocks == 0 || asked.batch == 0
    {
        return Err(DiskError::refused(format!(
            "{} blocks of {} bytes, {} to a batch: a block is a power of two from 512 to 1048576 bytes, \
             and there is at least one block, and one to a batch",
            asked.blocks, asked.block_bytes, asked.batch
        )));
    }
    Ok(Buffer::new(length, Data::Defined))
}

fn open(asked: &Stamp, fresh: bool) -> Result<(File, PathBuf), DiskError> {
    match &asked.target {
        Target::File { folder, name } => {
            let folder = Folder::open(folder)?;
            let path = folder.path().join(name);
            let file = if fresh {
                folder.create_allocated(name, asked.blocks * asked.block_bytes)?
            } else {
                folder.find(name, OFlags::RDWR)?
            };
            Ok((file, path))
        }
        Target::Device(claim) => {
            let device = if fresh {
                claim::take(claim)?
            } else {
                let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
                let open = OpenOptions::new().read(true).custom_flags(flags).open(&claim.device);
                open.map_err(DiskError::at("opening", &claim.device))?
            };
            Ok((device, claim.device.clone()))
        }
        Target::Opened { descriptor } => {
            let path = PathBuf::from(format!("descriptor {descriptor}"));
            let file = inherited(*descriptor).map_err(DiskError::at("looking for", &path))?;
            Ok((file.into(), path))
        }
    }
}

/// Return the last acknowledged batch that wrote a block; `None` if there is none.
fn last_batch(asked: &Stamp, block: u64, acknowledged: u64) -> Option<u64> {
    let per_pass = asked.blocks.div_ceil(asked.batch);
    let first = block / asked.batch + 1;
    (acknowledged >= first).then(|| first + (acknowledged - first) / per_pass * per_pass)
}

fn count(found: &mut Verified, asked: &Stamp, block: u64, wanted: u64, seen: &[u8]) {
    found.acknowledged += 1;
    let place = match read_stamp(seen) {
        Some(stamp) if stamp.run != asked.run => &mut found.lost,
        Some(stamp) if stamp.block != block => &mut found.misplaced,
        Some(stamp) if stamp.batch < wanted => &mut found.stale,
        Some(_) => {
            found.kept += 1;
            return;
        }
        None => &mut found.lost,
    };
    *place += 1;
    if found.first_bad.len() < MOST_NAMED {
        found.first_bad.push(block);
    }
}

/// Fill a block with its stamp and with pseudo-random numbers derived from the stamp.
fn stamp(block: &mut [u8], stamped: Stamped) {
    let mut random = Random::new(stamped.run ^ stamped.block.rotate_left(32) ^ stamped.batch.rotate_left(48));
    for word in block[STAMP_BYTES..].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
    block[..8].copy_from_slice(MAGIC);
    for (word, value) in block[8..32].chunks_exact_mut(8).zip([stamped.run, stamped.block, stamped.batch]) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    let sum = check_sum(block);
    block[32..40].copy_from_slice(&sum.to_le_bytes());
}

/// Return the stamp of a complete, undamaged block.
fn read_stamp(block: &[u8]) -> Option<Stamped> {
    let word = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
    (block.get(..8)? == MAGIC && word(32)? == check_sum(block)).then_some(Stamped {
        run: word(8)?,
        block: word(16)?,
        batch: word(24)?,
    })
}

/// Return the 64-bit FNV-1a checksum (Fowler, Noll, Vo) of a block without its checksum field, computed over
/// 8-byte words.
fn check_sum(block: &[u8]) -> u64 {
    let words = block[..32].chunks_exact(8).chain(block[STAMP_BYTES..].chunks_exact(8));
    words.fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        let value = word.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        (sum ^ value).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Stamp {
        let target = Target::File { folder: "/".into(), name: "x".into() };
        Stamp { target, run: 7, block_bytes: 512, blocks: 10, batch: 4, passes: 3 }
    }

    #[test]
    fn stamp_is_read_back_and_any_changed_byte_invalidates_it() {
        let mut block = vec![0; 512];
        let written = Stamped { run: 7, block: 3, batch: 9 };
        stamp(&mut block, written);
        assert_eq!(read_stamp(&block), Some(written));
        for at in [0, 8, 16, 24, 32, 40, 511] {
            block[at] ^= 1;
            assert_eq!(read_stamp(&block), None, "{at}");
            block[at] ^= 1;
        }
        assert_eq!(read_stamp(&[]), None);
    }

    #[test]
    fn last_batch_of_a_block_is_the_last_acknowledged_one() {
        // Batches 1, 2, 3 write blocks 0-3, 4-7, 8-9; batches 4, 5, 6 write them again.
        assert_eq!(last_batch(&asked(), 0, 0), None);
        assert_eq!(last_batch(&asked(), 9, 2), None);
        assert_eq!(last_batch(&asked(), 9, 3), Some(3));
        assert_eq!(last_batch(&asked(), 0, 5), Some(4));
        assert_eq!(last_batch(&asked(), 9, 5), Some(3));
        assert_eq!(last_batch(&asked(), 5, 9), Some(8));
    }

    #[test]
    fn stale_misplaced_and_foreign_blocks_are_distinguished() {
        let mut found = Verified::default();
        let mut block = vec![0; 512];
        for stamped in [
            Stamped { run: 7, block: 1, batch: 4 },
            Stamped { run: 7, block: 1, batch: 1 },
            Stamped { run: 7, block: 2, batch: 4 },
            Stamped { run: 8, block: 1, batch: 4 },
        ] {
            stamp(&mut block, stamped);
            count(&mut found, &asked(), 1, 4, &block);
        }
        count(&mut found, &asked(), 1, 4, &[0; 512]);
        let counts = (found.acknowledged, found.kept, found.stale, found.misplaced, found.lost);
        assert_eq!(counts, (5, 1, 1, 1, 2));
        assert_eq!(found.first_bad, [1, 1, 1, 1]);
    }
}
