//! The phases of bonnie++ on the large file, except the seeks.

use crate::report::Residency;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::buffer::Buffer;
use crate::cache::{prepare, Behind, Emptying};
use crate::error::DiskError;
use crate::folder::Folder;
use crate::phase::{Moved, Watch};
use crate::report::Phase;
use crate::request::{Bonnie, Edition};
use crate::Clock;

/// Block size of the large file in both editions, in bytes.
pub(super) const CHUNK: usize = 8192;
/// The block size [`CHUNK`] as a 64-bit number, in bytes.
pub(super) const CHUNK_BYTES: u64 = CHUNK as u64;

/// Number of single bytes that edition 2.00 writes and reads: 3 MiB.
const SINGLE_BYTES: u64 = 3 << 20;
/// Buffer size of the C library on file systems with 4096-byte blocks, in bytes.
const LIBRARY_BYTES: usize = 4096;

/// The large file and the settings of its phases.
pub struct LargeFile<'a> {
    /// The request.
    pub asked: &'a Bonnie,
    /// Clock of all phases.
    pub clock: Clock<'a>,
    folder: &'a Folder,
    name: &'a str,
    path: PathBuf,
    behind: Behind,
    _emptying: Emptying,
}

impl<'a> LargeFile<'a> {
    /// Prepare the large file with the given name, which does not exist yet.
    ///
    /// # Errors
    /// Returns an error if a backing file of the disk does not exist.
    pub fn new(
        asked: &'a Bonnie,
        folder: &'a Folder,
        name: &'a str,
        clock: Clock<'a>,
    ) -> Result<Self, DiskError> {
        let behind = Behind::open(&asked.behind)?;
        let path = folder.path().join(name);
        let emptying =
            Emptying::begin(&behind).map_err(DiskError::at("emptying what is behind the disk of", &path))?;
        Ok(Self { asked, clock, folder, name, path, behind, _emptying: emptying })
    }

    /// Open the large file for reading and writing.
    pub fn open(&self) -> Result<File, DiskError> {
        self.folder.find(self.name, OFlags::RDWR)
    }

    /// Bring the page cache into the requested state.
    pub fn prepare(&self, file: &File) -> Result<Residency, DiskError> {
        prepare(file, self.asked.cache, &self.behind)
            .map_err(DiskError::at("dropping from the page cache", &self.path))
    }

    /// Return a function that adds the operation and the path to an I/O error.
    pub fn failed(&self, doing: &'static str) -> impl FnOnce(std::io::Error) -> DiskError + use<'_> {
        DiskError::at(doing, &self.path)
    }

    /// Whether phases end with a flush.
    pub fn flushes(&self) -> bool {
        self.asked.edition == Edition::V2_00
    }

    fn create(&self) -> Result<File, DiskError> {
        self.folder.create(self.name, OFlags::empty())
    }

    const fn chunks(&self) -> u64 {
        self.asked.size_bytes / CHUNK_BYTES
    }

    const fn single_bytes(&self) -> u64 {
        match self.asked.edition {
            Edition::V1_03 => self.asked.size_bytes,
            Edition::V2_00 => SINGLE_BYTES,
        }
    }

    /// Run the phase "sequential output, per character".
    pub fn put_bytes(&self) -> Result<Phase, DiskError> {
        let file = self.create()?;
        let watch = Watch::begin(self.clock, "put-byte", 1, None);
        let count = self.single_bytes();
        let value = |at: u64| u8::try_from(at & 0x7f).unwrap_or(0);
        let mut moved = Moved { bytes: count, operations: count, slowest_ns: None };
        let file = match self.asked.edition {
            Edition::V1_03 => {
                let mut library = BufWriter::with_capacity(LIBRARY_BYTES, file);
                for at in 0..count {
                    library.write_all(&[value(at)]).map_err(self.failed("writing bytes to"))?;
                }
                library.into_inner().map_err(|error| self.failed("writing bytes to")(error.into_error()))?
            }
            Edition::V2_00 => {
                let chunk = || (0..CHUNK_BYTES).try_for_each(|at| (&file).write_all(&[value(at)]));
                let worst_ns = self.by_chunks(count, chunk).map_err(self.failed("writing bytes to"))?;
                moved.slowest_ns = Some(worst_ns);
                file
            }
        };
        self.end(watch, file, moved)
    }

    /// Run the phase "sequential output, block".
    pub fn put_blocks(&self) -> Result<Phase, DiskError> {
        let mut file = self.create()?;
        let mut buffer = Buffer::zeroed(CHUNK, self.asked.data);
        let watch = Watch::begin(self.clock, "put-block", CHUNK_BYTES, None);
        let mut slow = Slowest::new(self.clock);
        for chunk in 0..self.chunks() {
            bump(buffer.bytes_mut(), chunk);
            slow.watch(|| file.write_all(buffer.next())).map_err(self.failed("writing blocks to"))?;
        }
        self.end(watch, file, self.whole(&slow))
    }

    /// Run the phase "rewrite": each block is read, changed, and written back to its place; a block counts
    /// once.
    pub fn rewrite(&self) -> Result<Phase, DiskError> {
        let mut file = self.open()?;
        let seen = self.prepare(&file)?;
        let mut buffer = Buffer::zeroed(CHUNK, self.asked.data);
        let watch = Watch::begin(self.clock, "rewrite", CHUNK_BYTES, Some(seen));
        let mut slow = Slowest::new(self.clock);
        let back = -i64::try_from(CHUNK_BYTES).unwrap_or(0);
        for chunk in 0..self.chunks() {
            let once = || {
                file.read_exact(buffer.bytes_mut())?;
                bump(buffer.bytes_mut(), chunk);
                file.seek(SeekFrom::Current(back))?;
                file.write_all(buffer.bytes())
            };
            slow.watch(once).map_err(self.failed("rewriting blocks of"))?;
        }
        self.end(watch, file, self.whole(&slow))
    }

    /// Run the phase "sequential input, per character".
    pub fn get_bytes(&self) -> Result<Phase, DiskError> {
        let file = self.open()?;
        let seen = self.prepare(&file)?;
        let watch = Watch::begin(self.clock, "get-byte", 1, Some(seen));
        let count = self.single_bytes().min(self.asked.size_bytes);
        let mut moved = Moved { bytes: count, operations: count, slowest_ns: None };
        let mut byte = [0];
        let file = match self.asked.edition {
            Edition::V1_03 => {
                let mut library = BufReader::with_capacity(LIBRARY_BYTES, file);
                for _ in 0..count {
                    library.read_exact(&mut byte).map_err(self.failed("reading bytes of"))?;
                    std::hint::black_box(&byte);
                }
                library.into_inner()
            }
            Edition::V2_00 => {
                let chunk = || (0..CHUNK_BYTES).try_for_each(|_| (&file).read_exact(&mut byte));
                let worst_ns = self.by_chunks(count, chunk).map_err(self.failed("reading bytes of"))?;
                moved.slowest_ns = Some(worst_ns);
                file
            }
        };
        self.end(watch, file, moved)
    }

    /// Run the phase "sequential input, block".
    pub fn get_blocks(&self) -> Result<Phase, DiskError> {
        let mut file = self.open()?;
        let seen = self.prepare(&file)?;
        let mut buffer = Buffer::zeroed(CHUNK, self.asked.data);
        let watch = Watch::begin(self.clock, "get-block", CHUNK_BYTES, Some(seen));
        let mut slow = Slowest::new(self.clock);
        for _ in 0..self.chunks() {
            slow.watch(|| file.read_exact(buffer.bytes_mut())).map_err(self.failed("reading blocks of"))?;
        }
        self.end(watch, file, self.whole(&slow))
    }

    /// Move single bytes, and read the clock once per 8 KiB, as edition 2.00 does: a reading per byte would take a
    /// tenth of the phase's time. Return the longest time for 8 KiB, in ns.
    fn by_chunks(&self, count: u64, mut chunk: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
        let mut slow = Slowest::new(self.clock);
        for _ in 0..count / CHUNK_BYTES {
            slow.watch(&mut chunk)?;
        }
        Ok(slow.worst_ns)
    }

    const fn whole(&self, slow: &Slowest<'_>) -> Moved {
        Moved { bytes: self.asked.size_bytes, operations: self.chunks(), slowest_ns: Some(slow.worst_ns) }
    }

    fn end(&self, mut watch: Watch<'_>, file: File, moved: Moved) -> Result<Phase, DiskError> {
        watch.transferred();
        if self.flushes() {
            watch.flush(&file).map_err(self.failed("flushing"))?;
        }
        watch.close(file);
        Ok(watch.end(moved))
    }
}

/// Change one byte of a block; the position of the byte differs between consecutive blocks.
pub fn bump(block: &mut [u8], chunk: u64) {
    let at = usize::try_from(chunk % block.len() as u64).unwrap_or(0);
    block[at] = block[at].wrapping_add(1);
}

/// Timer of single operations that keeps the longest time.
pub struct Slowest<'a> {
    clock: Clock<'a>,
    /// Longest time so far, in ns.
    pub worst_ns: u64,
}

impl<'a> Slowest<'a> {
    /// Create a timer without a measured time.
    pub const fn new(clock: Clock<'a>) -> Self {
        Self { clock, worst_ns: 0 }
    }

    /// Measure the time of one operation.
    pub fn watch<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let begin_ns = (self.clock)();
        let done = operation();
        self.worst_ns = self.worst_ns.max((self.clock)().saturating_sub(begin_ns));
        done
    }
}
