//! bonnie++: a large file written and read by single bytes and by blocks of 8 KiB, rewritten, sought in; then small files.
//!
//! Edition 1.03 passes single bytes through a buffer in the program, over the whole file, and flushes nothing. Edition
//! 2.00 makes a system call for each of 3 Mi bytes, and ends every phase on the large file with a flush that counts.

mod large;
mod seeks;
mod small;

use crate::error::DiskError;
use crate::folder::{Folder, Passing};
use crate::report::Report;
use crate::request::Bonnie;
use crate::Clock;

use self::large::{LargeFile, CHUNK_BYTES};

/// Runs it.
pub fn run(asked: &Bonnie, clock: Clock<'_>) -> Result<Report, DiskError> {
    if asked.size_bytes == 0 || asked.size_bytes % CHUNK_BYTES != 0 {
        return Err(DiskError::refused(format!(
            "a file of {} bytes is no multiple of bonnie++'s {CHUNK_BYTES} bytes",
            asked.size_bytes
        )));
    }
    let folder = Folder::open(&asked.folder)?;
    folder.check_room(asked.size_bytes)?;
    let mut phases = Vec::new();
    {
        let name = Passing::new(&folder, "bonnie");
        let large = LargeFile::new(asked, &folder, name.name(), clock)?;
        phases.push(large.put_bytes()?);
        folder.remove(name.name());
        phases.push(large.put_blocks()?);
        phases.push(large.rewrite()?);
        phases.push(large.get_bytes()?);
        phases.push(large.get_blocks()?);
        phases.push(seeks::run(&large)?);
    }
    phases.extend(small::run(asked, &folder, clock)?);
    Ok(Report { phases, ..Report::default() })
}
