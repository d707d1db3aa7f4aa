//! A file of `/proc` that stays open and is read again and again.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::SampleError;

/// The file, once it was read, and a buffer for its text.
#[derive(Debug)]
pub struct KernelFile {
    path: String,
    open: Option<File>,
    buffer: Vec<u8>,
    one_record: bool,
}

impl KernelFile {
    /// The file `path`, not open yet.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), open: None, buffer: Vec::new(), one_record: false }
    }

    /// The file `path` of one record, which the kernel hands out whole where there is room: its end need not be looked for.
    pub fn of_one_record(path: impl Into<String>) -> Self {
        Self { one_record: true, ..Self::new(path) }
    }

    /// Its text now. A file of a namespace or thread stays that one's, wherever the calling thread is.
    ///
    /// # Errors
    /// When it cannot be read; then it is opened again the next time.
    pub fn read(&mut self) -> Result<Cow<'_, str>, SampleError> {
        match self.fill() {
            Ok(length) => Ok(String::from_utf8_lossy(&self.buffer[..length])),
            Err(source) => {
                self.open = None;
                Err(SampleError::File { path: self.path.clone().into(), source })
            }
        }
    }

    /// Read from the beginning to the end, and say how much that was. Reading at 0 makes the kernel write the text again.
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

/// What a thread's files take; the kernel hands out longer ones a page at a time.
const LEAST_ROOM_BYTES: usize = 1024;

/// What is shorter than this was all: the kernel hands out as many records as fit into a page, none of them half as long.
const SURELY_ALL_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn every_reading_is_of_its_own_time() {
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
    fn a_long_file_is_read_to_its_end() {
        // Several pages, of a program that only waits: nothing changes between the readings.
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
    fn a_file_that_is_absent_is_named_and_tried_again() {
        let mut file = KernelFile::new("/proc/no-such-file");
        assert!(file.read().unwrap_err().to_string().contains("/proc/no-such-file"));
        assert_eq!(file.read().unwrap_err().errno(), Some(2));
    }
}
