//! A file of `/proc` that stays open between readings.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::SampleError;

/// A file that is opened by its first reading, and a buffer for its text.
#[derive(Debug)]
pub struct KernelFile {
    path: String,
    open: Option<File>,
    buffer: Vec<u8>,
    one_record: bool,
}

impl KernelFile {
    /// Create a reader of the file `path`, without opening the file.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), open: None, buffer: Vec::new(), one_record: false }
    }

    /// Create a reader of a file that consists of one record. The kernel returns such a record in a single read if the
    /// buffer is large enough, so no second read is needed to detect the end of the file.
    pub fn of_one_record(path: impl Into<String>) -> Self {
        Self { one_record: true, ..Self::new(path) }
    }

    /// Read the current text. An open file stays in the network namespace and thread of its first reading,
    /// wherever the calling thread is.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read; the next reading opens the file again.
    pub fn read(&mut self) -> Result<Cow<'_, str>, SampleError> {
        match self.fill() {
            Ok(length) => Ok(String::from_utf8_lossy(&self.buffer[..length])),
            Err(source) => {
                self.open = None;
                Err(SampleError::File { path: self.path.clone().into(), source })
            }
        }
    }

    /// Read the file from start to end and return its length in bytes. A read at offset 0 makes the kernel
    /// generate the text again.
    fn fill(&mut self) -> std::io::Result<usize> {
        let file = match self.open.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        let mut length = 0;
        loop {
            if self.buffer.len() < length + LEAST_ROOM_BYTES {
                self.buffer.resize(2 * self.buffer.len().max(LEAST_ROOM_BYTES), 0);
            }
            match file.read_at(&mut self.buffer[length..], length as u64)? {
                0 => break,
                more => length += more,
            }
            if length < self.buffer.len() && (self.one_record || length < SURELY_ALL_BYTES) {
                break;
            }
        }
        self.open = Some(file);
        Ok(length)
    }
}

/// Minimum free buffer space in bytes, enough for the files of a thread. The kernel returns longer files one
/// page at a time.
const LEAST_ROOM_BYTES: usize = 1024;

/// A read of fewer bytes than this is the whole file: the kernel fills a page with complete records, and no
/// record is half a page long.
const SURELY_ALL_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn every_reading_of_a_kernel_file_is_current() {
        let mut uptime = KernelFile::new("/proc/self/schedstat");
        let first = uptime.read().unwrap().into_owned();
        (0..1_000_000).for_each(|number| {
            std::hint::black_box(number);
        });
        while uptime.read().unwrap() == first {
            std::thread::yield_now();
        }
    }

    #[test]
    fn long_file_is_read_to_its_end() {
        // The file has several pages and belongs to a waiting program, so it does not change between the readings.
        let mut waiting = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 1];
        waiting.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        waiting.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let path = format!("/proc/{}/smaps", waiting.id());
        let whole = std::fs::read_to_string(&path).unwrap();
        let mut maps = KernelFile::new(&path);
        let lines = maps.read().unwrap().lines().count();
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        assert!(whole.len() > 2 * 4096);
        assert_eq!(lines, whole.lines().count());
    }

    #[test]
    fn missing_file_is_named_and_tried_again() {
        let mut file = KernelFile::new("/proc/no-such-file");
        assert!(file.read().unwrap_err().to_string().contains("/proc/no-such-file"));
        assert_eq!(file.read().unwrap_err().errno(), Some(2));
    }
}
