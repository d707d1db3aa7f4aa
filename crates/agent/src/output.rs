//! Standard output: messages wait here until the controller takes them, so that neither the reader of requests nor a worker is
//! ever held up by a controller that does not read.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::sync::lock;

/// The messages that wait to be written.
#[derive(Default)]
pub struct Output {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    size_bytes: usize,
    writing: bool,
}

/// The controller takes no more messages.
#[derive(Debug)]
pub struct Gone;

impl Output {
    /// Queue one message.
    pub fn send(&self, message: &impl Serialize) -> Result<(), Gone> {
        let mut line = serde_json::to_vec(message).map_err(|_| Gone)?;
        line.push(b'\n');
        let mut waiting = lock(&self.waiting);
        if waiting.size_bytes > WAITING_LIMIT_BYTES {
            return Err(Gone);
        }
        waiting.size_bytes += line.len();
        waiting.lines.push_back(line);
        self.changed.notify_all();
        Ok(())
    }

    /// Begin the thread that writes; `gone` is called when nobody reads any more.
    pub fn begin(self: &Arc<Self>, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let output = Arc::clone(self);
        let writing = thread::Builder::new().name("output".to_owned()).spawn(move || {
            while io::stdout().write_all(&output.next()).and_then(|()| io::stdout().flush()).is_ok() {}
            gone();
        });
        writing.map(drop)
    }

    /// Wait until everything is written, at most for `limit`.
    pub fn drain(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut waiting = lock(&self.waiting);
        while waiting.writing || !waiting.lines.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next line to write; the one before counts as written.
    fn next(&self) -> Vec<u8> {
        let mut waiting = lock(&self.waiting);
        waiting.writing = false;
        self.changed.notify_all();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.size_bytes -= line.len();
                waiting.writing = true;
                return line;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Four of the longest messages; a controller that is further behind does not read at all.
const WAITING_LIMIT_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_in_order_until_they_are_written() {
        let output = Output::default();
        output.send(&1).unwrap();
        output.send(&"two").unwrap();
        assert_eq!(output.next(), b"1\n");
        assert_eq!(output.next(), b"\"two\"\n");
    }

    #[test]
    fn a_controller_that_never_reads_has_gone() {
        let output = Output::default();
        let large = "x".repeat(16 << 20);
        let sent = (0..10).take_while(|_| output.send(&large).is_ok()).count();
        assert_eq!(sent, 4);
    }
}
