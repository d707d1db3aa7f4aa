//! Standard output: messages are queued until the controller reads them, so that a slow controller never
//! blocks the reader of requests or a worker thread.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::kernel::sync::lock;

/// The queue of messages.
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

/// Error: the controller has disconnected or stopped reading messages.
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

    /// Treat the controller as disconnected: discard the queued messages.
    pub fn give_up(&self) {
        lock(&self.waiting).gone = true;
        self.changed.notify_all();
    }

    /// Whether the queue has room for relayed messages, which can wait elsewhere; `send` accepts messages
    /// even without room.
    pub fn has_room(&self) -> bool {
        lock(&self.waiting).size_bytes <= ROOM_BYTES
    }

    /// Start the writer thread, which calls `gone` when the controller has disconnected.
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

    /// Wait until all messages are written, for at most `limit`.
    pub fn drain(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut waiting = lock(&self.waiting);
        while waiting.writing || !waiting.lines.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Return the next line to write, and mark the previous line as written; `None` if the controller has
    /// disconnected.
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

/// Maximum size of the queue in bytes: four messages of the maximum length. A controller that lags further
/// behind has stopped reading.
const WAITING_LIMIT_BYTES: usize = 64 << 20;

/// Relays continue to read while the queue is smaller than this, in bytes.
const ROOM_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_queued_in_order_until_written() {
        let output = Output::default();
        output.send(&1).unwrap();
        output.send(&"two").unwrap();
        assert_eq!(output.next().unwrap(), b"1\n");
        assert_eq!(output.next().unwrap(), b"\"two\"\n");
    }

    #[test]
    fn sending_to_a_controller_that_never_reads_fails() {
        let output = Output::default();
        let large = "x".repeat(16 << 20);
        let sent = (0..10).take_while(|_| output.send(&large).is_ok()).count();
        assert_eq!(sent, 4);
    }
}
