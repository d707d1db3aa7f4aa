//! The only folder in which files are created and written: it belongs to this user alone, and its path has no
//! symbolic links.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    fallocate, fstat, fstatvfs, openat2, unlinkat, AtFlags, FallocateFlags, FileType, Mode, OFlags,
    ResolveFlags, CWD,
};
use rustix::process::geteuid;

use crate::error::DiskError;

/// A folder to which other users cannot write.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: OwnedFd,
}

impl Folder {
    /// Open the folder.
    ///
    /// # Errors
    /// Returns an error if the folder does not exist, if its path contains a symbolic link, or if other users
    /// may write to it.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = openat2(CWD, path, flags, Mode::empty(), resolve).map_err(|error| {
            DiskError::at("opening the folder (without symbolic links)", path)(error.into())
        })?;
        let seen =
            fstat(&open).map_err(|error| DiskError::at("looking at the folder", path)(error.into()))?;
        if seen.st_uid != geteuid().as_raw() || seen.st_mode & 0o022 != 0 {
            return Err(DiskError::refused(format!(
                "folder {} belongs to user {} and has mode {:o}; only a folder of one's own (user {}) that nobody else \
                 may write is written to: make one with `mkdir -m 700`",
                path.display(),
                seen.st_uid,
                seen.st_mode & 0o7777,
                geteuid().as_raw(),
            )));
        }
        Ok(Self { path: path.to_owned(), open })
    }

    /// Check that `bytes` more bytes leave at least a tenth of the file system free.
    ///
    /// # Errors
    /// Returns an error with the required and the available space if there is too little space.
    pub fn check_room(&self, bytes: u64) -> Result<(), DiskError> {
        let seen = fstatvfs(&self.open)
            .map_err(|error| DiskError::at("looking at the room in", &self.path)(error.into()))?;
        let free = seen.f_bavail.saturating_mul(seen.f_frsize);
        let reserve = seen.f_blocks.saturating_mul(seen.f_frsize) / 10;
        let room = free.saturating_sub(reserve);
        if bytes > room {
            return Err(DiskError::refused(format!(
                "{} MiB are wanted in {}, and {} MiB may be had: a tenth of the file system stays free; \
                 make room there, or ask for less",
                bytes.div_ceil(1 << 20),
                self.path.display(),
                room >> 20,
            )));
        }
        Ok(())
    }

    /// Create a file for reading and writing; an existing file stays unchanged.
    ///
    /// # Errors
    /// Returns an error if the name exists or the system call fails.
    pub fn create(&self, name: &str, extra: OFlags) -> Result<File, DiskError> {
        self.reach(name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | extra, "making the file")
    }

    /// Create a file of `bytes` bytes with all blocks allocated.
    ///
    /// # Errors
    /// Returns an error if there is too little space, if the name exists, or if a system call fails.
    pub fn create_allocated(&self, name: &str, bytes: u64) -> Result<File, DiskError> {
        self.check_room(bytes)?;
        let file = self.create(name, OFlags::empty())?;
        fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|error| {
            self.remove(name);
            DiskError::at("allocating the blocks of", &self.path.join(name))(error.into())
        })?;
        Ok(file)
    }

    /// Open an existing file.
    ///
    /// # Errors
    /// Returns an error if the file is not a regular file of this user with a single link, or if the system call fails.
    pub fn find(&self, name: &str, flags: OFlags) -> Result<File, DiskError> {
        self.reach(name, flags, "opening the file")
    }

    fn reach(&self, name: &str, flags: OFlags, doing: &'static str) -> Result<File, DiskError> {
        let path = self.path.join(name);
        if name.is_empty() || name.contains('/') {
            return Err(DiskError::refused(format!(
                "{name:?} is no name of a file in {}",
                self.path.display()
            )));
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&self.open, name, flags, mode, resolve)
            .map_err(|error| DiskError::at(doing, &path)(error.into()))?;
        let seen = fstat(&opened).map_err(|error| DiskError::at("looking at", &path)(error.into()))?;
        let plain = FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile;
        if !plain || seen.st_nlink != 1 || seen.st_uid != geteuid().as_raw() {
            return Err(DiskError::refused(format!(
                "{} is no plain file of user {} with one name: it is left alone",
                path.display(),
                geteuid().as_raw(),
            )));
        }
        Ok(File::from(opened))
    }

    /// Delete a file; a missing file is no error.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.open, name, AtFlags::empty());
    }

    /// Return the descriptor of the folder.
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.open
    }

    /// Return the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Return a random, unused file name. A process ID would not be unique: a killed program leaves its files,
/// and every confined program is process 1.
pub fn fresh_name(program: &str) -> String {
    format!("{program}.{:016x}", RandomState::new().build_hasher().finish())
}

/// A file that is deleted when the value is dropped.
#[derive(Debug)]
pub struct Passing<'a> {
    folder: &'a Folder,
    name: String,
}

impl<'a> Passing<'a> {
    /// Choose a name for a file to be created in `folder`. If the name exists, the later creation of the file
    /// fails.
    pub fn new(folder: &'a Folder, program: &str) -> Self {
        Self { folder, name: fresh_name(program) }
    }

    /// Return the name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.folder.remove(&self.name);
    }
}
