//! The phases of bonnie++ on small files: empty files are created, queried with stat(2) and deleted, first sequentially
//! (created in the order of their names, then queried and deleted in the order of the folder), then in random order.
//! bonnie++ calls sync(2), which writes out all file systems of the host; this program calls syncfs(2) on the file
//! system of the folder only.

use std::fs;
use std::path::PathBuf;

use rustix::fs::{mkdirat, statat, syncfs, unlinkat, AtFlags, Dir, Mode, OFlags};

use crate::error::DiskError;
use crate::folder::{fresh_name, Folder};
use crate::phase::{Moved, Watch};
use crate::random::Random;
use crate::report::Phase;
use crate::request::Bonnie;
use crate::Clock;

/// Maximum number of random letters and digits in a file name.
const MOST_ADDED: u64 = 12;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Run the six phases; return no phases if the request has no small files.
pub fn run(asked: &Bonnie, folder: &Folder, clock: Clock<'_>) -> Result<Vec<Phase>, DiskError> {
    if asked.files == 0 {
        return Ok(Vec::new());
    }
    let own = OwnFolder::make(folder)?;
    let mut random = Random::new(asked.seed ^ 1);
    let mut names: Vec<String> =
        (0..asked.files).map(|number| format!("{number:010x}{}", letters(&mut random))).collect();
    let mut phases = vec![own.create("create-sequential", &names, clock)?];
    names = own.listed()?;
    phases.push(own.stat("stat-sequential", &names, clock)?);
    phases.push(own.delete("delete-sequential", &names, clock)?);
    names = (0..asked.files).map(|number| format!("{}{number:010x}", letters(&mut random))).collect();
    phases.push(own.create("create-random", &names, clock)?);
    shuffle(&mut names, &mut random);
    phases.push(own.stat("stat-random", &names, clock)?);
    phases.push(own.delete("delete-random", &names, clock)?);
    Ok(phases)
}

fn letters(random: &mut Random) -> String {
    let count = random.below(MOST_ADDED + 1);
    (0..count).map(|_| char::from(ALPHABET[random.index(ALPHABET.len())])).collect()
}

fn shuffle(names: &mut [String], random: &mut Random) {
    for last in (1..names.len()).rev() {
        names.swap(last, random.index(last + 1));
    }
}

/// A folder that is removed with its contents when the value is dropped.
struct OwnFolder {
    folder: Folder,
}

impl OwnFolder {
    fn make(parent: &Folder) -> Result<Self, DiskError> {
        let name = fresh_name("bonnie-files");
        let path: PathBuf = parent.path().join(&name);
        mkdirat(parent.descriptor(), &name, Mode::RWXU)
            .map_err(|error| DiskError::at("making the folder", &path)(error.into()))?;
        Ok(Self { folder: Folder::open(&path)? })
    }

    fn failed(&self, doing: &'static str) -> impl Fn(rustix::io::Errno) -> DiskError + use<'_> {
        move |error| DiskError::at(doing, self.folder.path())(error.into())
    }

    fn create(&self, phase: &'static str, names: &[String], clock: Clock<'_>) -> Result<Phase, DiskError> {
        let mut watch = Watch::begin(clock, phase, 0, None);
        for name in names {
            drop(self.folder.create(name, OFlags::empty())?);
        }
        watch.transferred();
        self.sync(&mut watch)?;
        Ok(watch.end(count(names)))
    }

    fn stat(&self, phase: &'static str, names: &[String], clock: Clock<'_>) -> Result<Phase, DiskError> {
        let mut watch = Watch::begin(clock, phase, 0, None);
        for name in names {
            statat(self.folder.descriptor(), name, AtFlags::empty())
                .map_err(self.failed("looking at files in"))?;
        }
        watch.transferred();
        Ok(watch.end(count(names)))
    }

    fn delete(&self, phase: &'static str, names: &[String], clock: Clock<'_>) -> Result<Phase, DiskError> {
        let mut watch = Watch::begin(clock, phase, 0, None);
        for name in names {
            unlinkat(self.folder.descriptor(), name, AtFlags::empty())
                .map_err(self.failed("deleting files in"))?;
        }
        watch.transferred();
        self.sync(&mut watch)?;
        Ok(watch.end(count(names)))
    }

    fn sync(&self, watch: &mut Watch<'_>) -> Result<(), DiskError> {
        let readable = rustix::fs::openat(
            self.folder.descriptor(),
            ".",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        readable.and_then(syncfs).map_err(self.failed("syncing the file system of"))?;
        watch.flushed();
        Ok(())
    }

    /// Return the file names in the order of the folder.
    fn listed(&self) -> Result<Vec<String>, DiskError> {
        let open = rustix::fs::openat(
            self.folder.descriptor(),
            ".",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let mut names = Vec::new();
        for entry in open.and_then(Dir::new).map_err(self.failed("listing"))? {
            let entry = entry.map_err(self.failed("listing"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // The lab removes remaining files with their file system.
        let _ = fs::remove_dir_all(self.folder.path());
    }
}

const fn count(names: &[String]) -> Moved {
    Moved { bytes: 0, operations: names.len() as u64, slowest_ns: None }
}
