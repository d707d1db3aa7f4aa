//! The requests to the thread of an emulated link: a queue, and a socket that wakes the thread up.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use iolab_protocol::wire::{WayCounts, WireStalls};

use super::does::Does;

/// A request to the thread.
pub enum Letter {
    /// Change the impairments for frames that arrive from now on.
    Change(Box<[Does; 2]>, Sender<()>),
    /// Restart the frame numbers of each direction at 0, and the random draws with these seeds.
    RestartDraws([u64; 2], Sender<()>),
    /// Return the frame counts and the stalls of the thread, with individual stalls from a time on (ns).
    Count(Option<u64>, Sender<Box<([WayCounts; 2], WireStalls)>>),
    /// Stop.
    Stop,
}

/// The sending side of the request queue.
#[derive(Debug)]
pub struct Desk {
    letters: Sender<Letter>,
    waiting: Arc<AtomicBool>,
    bell: UnixStream,
}

/// The receiving side of the request queue, used by the thread.
#[derive(Debug)]
pub struct Letters {
    pub(super) letters: Receiver<Letter>,
    pub(super) waiting: Arc<AtomicBool>,
    pub(super) bell: UnixStream,
}

impl Desk {
    /// Create both sides.
    pub fn new() -> io::Result<(Self, Letters)> {
        let (near, far) = UnixStream::pair()?;
        far.set_nonblocking(true)?;
        near.set_nonblocking(true)?;
        let ((sender, letters), waiting) = (channel(), Arc::<AtomicBool>::default());
        let inside = Letters { letters, waiting: Arc::clone(&waiting), bell: far };
        Ok((Self { letters: sender, waiting, bell: near }, inside))
    }

    /// Send a request; it is dropped if the thread has ended.
    pub fn post(&self, letter: Letter) {
        let _ = self.letters.send(letter);
        // Release pairs with the Acquire of `open`: a thread that reads the flag finds the request.
        self.waiting.store(true, Ordering::Release);
        let _ = (&self.bell).write(&[1]); // a full socket already wakes the thread
    }
}
