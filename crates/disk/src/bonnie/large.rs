//! The phases on the large file, but for the seeks.

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

/// Of the large file's blocks, in both editions. (bytes)
pub(super) const CHUNK: usize = 8192;
/// The same, among sizes of files. (bytes)
pub(super) const CHUNK_BYTES: u64 = CHUNK as u64;

/// Single bytes that edition 2.00 moves: 3 MiB.
const SINGLE_BYTES: u64 = 3 << 20;
/// What a C library takes at a time where a file system's blocks are of this size. (bytes)
const LIBRARY_BYTES: usize = 4096;

/// The file and how it is treated.
pub struct LargeFile<'a> {
    /// What was asked for.
    pub asked: &'a Bonnie,
    /// Of every phase.
    pub clock: Clock<'a>,
    folder: &'a Folder,
    name: &'a str,
    path: PathBuf,
    behind: Behind,
    _emptying: Emptying,
}

impl<'a> LargeFile<'a> {
    /// The file of that name, which is not there yet.
    ///
    /// # Errors
    /// A file behind the disk is not there.
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

    /// Opens it.
    pub fn open(&self) -> Result<File, DiskError> {
        self.folder.find(self.name, OFlags::RDWR)
    }

    /// Brings the page cache into the state that was asked for.
    pub fn prepare(&self, file: &File) -> Result<Residency, DiskError> {
        prepare(file, self.asked.cache, &self.behind)
            .map_err(DiskError::at("dropping from the page cache", &self.path))
    }

    /// What went wrong with it.
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

    /// "Sequential output, per character".
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

    /// "Sequential output, block".
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

    /// "Rewrite": each block is read, changed, and written where it was; it counts once.
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

    /// "Sequential input, per character".
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

    /// "Sequential input, block".
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

    /// Moves single bytes, 8 KiB of them between two looks at the clock, as edition 2.00 does: one look per byte would
    /// take a tenth of its time. Gives the longest time of so many. (ns)
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

/// Changes one byte of a block, another one in the next.
pub fn bump(block: &mut [u8], chunk: u64) {
    let at = usize::try_from(chunk % block.len() as u64).unwrap_or(0);
    block[at] = block[at].wrapping_add(1);
}

/// Times single operations and keeps the longest time.
pub struct Slowest<'a> {
    clock: Clock<'a>,
    /// So far. (ns)
    pub worst_ns: u64,
}

impl<'a> Slowest<'a> {
    /// None yet.
    pub const fn new(clock: Clock<'a>) -> Self {
        Self { clock, worst_ns: 0 }
    }

    /// Times one.
    pub fn watch<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let begin_ns = (self.clock)();
        let done = operation();
        self.worst_ns = self.worst_ns.max((self.clock)().saturating_sub(begin_ns));
        done
    }
}
