//! Standard output: messages wait here until the controller takes them, so that neither the reader of requests nor a worker is
//! ever held up by a controller that does not read.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::kernel::sync::lock;

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
    gone: bool,
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

    /// Take the controller for gone: what waits is not written any more.
    pub fn give_up(&self) {
        lock(&self.waiting).gone = true;
        self.changed.notify_all();
    }

    /// Whether there is room for what can wait elsewhere; what is sent all the same is taken.
    pub fn has_room(&self) -> bool {
        lock(&self.waiting).size_bytes <= ROOM_BYTES
    }

    /// Begin the thread that writes; `gone` is called when nobody reads any more.
    pub fn begin(self: &Arc<Self>, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let output = Arc::clone(self);
        let writing = thread::Builder::new().name("output".to_owned()).spawn(move || {
            while let Some(line) = output.next() {
                if io::stdout().write_all(&line).and_then(|()| io::stdout().flush()).is_err() {
                    break;
                }
            }
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

    /// The next line to write; the one before counts as written. None when the controller has gone.
    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = lock(&self.waiting);
        waiting.writing = false;
        self.changed.notify_all();
        while !waiting.gone {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.size_bytes -= line.len();
                waiting.writing = true;
                return Some(line);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// Four of the longest messages; a controller that is further behind does not read at all.
const WAITING_LIMIT_BYTES: usize = 64 << 20;

/// Relays read on while less than this waits.
const ROOM_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_in_order_until_they_are_written() {
        let output = Output::default();
        output.send(&1).unwrap();
        output.send(&"two").unwrap();
        assert_eq!(output.next().unwrap(), b"1\n");
        assert_eq!(output.next().unwrap(), b"\"two\"\n");
    }

    #[test]
    fn a_controller_that_never_reads_has_gone() {
        let output = Output::default();
        let large = "x".repeat(16 << 20);
        let sent = (0..10).take_while(|_| output.send(&large).is_ok()).count();
        assert_eq!(sent, 4);
    }
}
