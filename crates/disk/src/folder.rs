//! The only place where files are made and written: a folder of this user alone, reached without symbolic links.

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

/// A folder that nobody else can write.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: OwnedFd,
}

impl Folder {
    /// Opens it.
    ///
    /// # Errors
    /// It is not there, is reached through a symbolic link, or others may write into it.
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

    /// Refuses what would leave less than a tenth of the file system free.
    ///
    /// # Errors
    /// `bytes` more do not fit in, with both figures.
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

    /// Makes a file for reading and writing; what is there already stays as it is.
    ///
    /// # Errors
    /// There is something of that name, or the system said no.
    pub fn create(&self, name: &str, extra: OFlags) -> Result<File, DiskError> {
        self.reach(name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | extra, "making the file")
    }

    /// Makes a file of `bytes`, every block of it allocated.
    ///
    /// # Errors
    /// There is no room, there is something of that name, or the system said no.
    pub fn create_allocated(&self, name: &str, bytes: u64) -> Result<File, DiskError> {
        self.check_room(bytes)?;
        let file = self.create(name, OFlags::empty())?;
        fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|error| {
            self.remove(name);
            DiskError::at("allocating the blocks of", &self.path.join(name))(error.into())
        })?;
        Ok(file)
    }

    /// Opens a file that is there.
    ///
    /// # Errors
    /// It is no plain file of this user with one name, or the system said no.
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

    /// Deletes a file; one that is not there is no matter.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.open, name, AtFlags::empty());
    }

    /// The folder's own descriptor.
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.open
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A name that nothing has: a program that was killed leaves its files, and every confined program is process 1.
pub fn fresh_name(program: &str) -> String {
    format!("{program}.{:016x}", RandomState::new().build_hasher().finish())
}

/// A file that goes when this value goes.
#[derive(Debug)]
pub struct Passing<'a> {
    folder: &'a Folder,
    name: String,
}

impl<'a> Passing<'a> {
    /// Names a file that is to be made in `folder`; one of that name that is there already stays, and this fails later.
    pub fn new(folder: &'a Folder, program: &str) -> Self {
        Self { folder, name: fresh_name(program) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.folder.remove(&self.name);
    }
}
