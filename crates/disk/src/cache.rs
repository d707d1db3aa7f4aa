//! The page cache of this kernel: drops a file or device from it, and measures its remaining pages.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use iolab_sys::page_cache::{cachestat, flush_block_device, mincore, page_bytes, Cached};
use rustix::fs::{fadvise, Advice};

use crate::error::DiskError;
use crate::report::{CacheState, Report, Residency};
use crate::request::{Cache, Cool};

/// Backing files of a disk; this kernel may cache their blocks. The files stay open: opening a FUSE file drops its
/// pages, so a later open would find no pages.
#[derive(Debug, Default)]
pub struct Behind(Vec<File>);

impl Behind {
    /// Open the files behind a disk.
    ///
    /// # Errors
    /// Returns an error if a file does not exist.
    pub fn open(paths: &[PathBuf]) -> Result<Self, DiskError> {
        let open = |path: &PathBuf| File::open(path).map_err(DiskError::at("opening", path));
        paths.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Drop the files from the page cache. Return the number of remaining pages; `None` if the kernel does
    /// not report it.
    fn empty(&self) -> io::Result<Option<u64>> {
        let mut pages = Some(0);
        for file in &self.0 {
            file.sync_all()?;
            fadvise(file, 0, None, Advice::DontNeed)?;
            let (_, seen) = look(file, length(file)?);
            pages = pages.zip(seen).map(|(pages, seen)| pages + seen.pages);
        }
        Ok(pages)
    }
}

/// A thread that drops files from the page cache until the value is dropped. Without this thread, a phase that both
/// reads and writes would find its earlier data in the cache.
#[derive(Debug)]
pub struct Emptying {
    over: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Emptying {
    /// Time between two drops, short enough that a phase rereads few blocks in between.
    const EVERY: Duration = Duration::from_millis(20);

    /// Start to drop the files behind a disk from the page cache.
    ///
    /// # Errors
    /// Returns an error if the system has no free descriptor or thread.
    pub fn begin(behind: &Behind) -> io::Result<Self> {
        let files: Vec<File> = behind.0.iter().map(File::try_clone).collect::<Result<_, _>>()?;
        let (over, waiting) = channel();
        let empty = move || {
            while !files.is_empty() && waiting.recv_timeout(Self::EVERY) == Err(RecvTimeoutError::Timeout) {
                // Ignore a failure: pages that cannot be dropped now are dropped later.
                for file in &files {
                    let _ = fadvise(file, 0, None, Advice::DontNeed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("emptying".to_owned()).spawn(empty)?;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Emptying {
    fn drop(&mut self) {
        // The send fails if the thread has already stopped.
        let _ = self.over.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Bring the page cache of a file into the requested state, and measure it. Files behind the disk are always
/// dropped: their pages are a second cache in this kernel, which a program on a physical disk would not have.
pub fn prepare(file: &File, wanted: Cache, behind: &Behind) -> io::Result<Residency> {
    let of_bytes = length(file)?;
    if wanted == Cache::Cold {
        file.sync_all()?;
        if file.metadata()?.file_type().is_block_device() {
            flush_block_device(file)?;
        }
        fadvise(file, 0, None, Advice::DontNeed)?;
    }
    let stayed = behind.empty()?;
    let (how, seen) = look(file, of_bytes);
    let page = page_bytes() as u64;
    let pages = seen.map_or(0, |seen| seen.pages) + stayed.unwrap_or(0);
    let state = match seen.and(stayed) {
        None => CacheState::Unknown,
        Some(_) if pages == 0 => CacheState::Cold,
        Some(_) if pages >= of_bytes.div_ceil(page) => CacheState::Warm,
        Some(_) => CacheState::Partly,
    };
    let dirty_bytes = seen.and_then(|seen| seen.dirty_pages).map(|dirty| dirty * page);
    Ok(Residency { wanted, state, how, resident_bytes: pages * page, dirty_bytes, of_bytes })
}

fn look(file: &File, of_bytes: u64) -> (&'static str, Option<Cached>) {
    if let Ok(seen) = cachestat(file) {
        return ("cachestat", Some(seen));
    }
    match usize::try_from(of_bytes)
        .map_err(|_| io::ErrorKind::FileTooLarge.into())
        .and_then(|all| mincore(file, all))
    {
        Ok(seen) => ("mincore", Some(seen)),
        Err(_) => ("", None),
    }
}

/// Return the size of a file or block device, in bytes.
pub fn length(file: &File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut other = file;
    let here = other.stream_position()?;
    let end = other.seek(SeekFrom::End(0))?;
    other.seek(SeekFrom::Start(here))?;
    Ok(end)
}

/// Execute a request that concerns only the page cache.
pub fn cool(asked: &Cool) -> Result<Report, DiskError> {
    let file = File::open(&asked.path).map_err(DiskError::at("opening", &asked.path))?;
    let wanted = if asked.drop { Cache::Cold } else { Cache::AsLeft };
    let seen = prepare(&file, wanted, &Behind::default())
        .map_err(DiskError::at("dropping from the page cache", &asked.path))?;
    Ok(Report { cache: Some(seen), ..Report::default() })
}
