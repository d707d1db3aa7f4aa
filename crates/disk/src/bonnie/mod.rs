//! bonnie++: a large file is written and read by single bytes and by 8-KiB blocks, rewritten, and read at
//! random positions; then small files are created and deleted.
//!
//! Edition 1.03 moves single bytes through a buffer in the program, over the whole file, and flushes nothing. Edition
//! 2.00 makes a system call for each of 3 Mi bytes. Edition 2.00 ends each phase on the large file with a flush, which
//! is part of the phase's time.

mod large;
mod seeks;
mod small;

use crate::error::DiskError;
use crate::folder::{Folder, Passing};
use crate::report::Report;
use crate::request::Bonnie;
use crate::Clock;

use self::large::{LargeFile, CHUNK_BYTES};

/// Run bonnie++.
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
