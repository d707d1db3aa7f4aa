//! One open relay: a thread that receives, notifies and sends until one side closes the relay.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use iolab_protocol::relay::{Noise, Received};
use iolab_protocol::Notification;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{read, write};

use super::connect::Line;
use super::inbox::{Heard, Inbox};
use super::outbox::{Offer, Outbox, Ticket};
use crate::kernel::clock::now_ns;
use crate::kernel::sync::lock;

/// An open relay.
pub struct Link {
    line: Line,
    wake: EventFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    outbox: Outbox,
    /// Whether the controller has received the relay's ID, so that it can be notified of received messages.
    begun: bool,
    closing: bool,
    ended: bool,
}

/// The recipient of the received messages.
pub trait Listener {
    /// Whether the recipient can accept more messages now.
    fn has_room(&self) -> bool;
    /// Send a notification.
    fn tell(&self, notification: Notification);
}

/// How a relay ended.
pub struct Outcome {
    /// Reason for the end.
    pub reason: String,
    /// Number of noise lines discarded since the last reported noise line.
    pub dropped: u64,
}

impl Link {
    /// Create a relay over `line`.
    pub fn new(line: Line) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { line, wake, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Start to send notifications of received messages.
    pub fn begin(&self) {
        lock(&self.state).begun = true;
        self.changed.notify_all();
    }

    /// Request the end of the relay.
    pub fn close(&self) {
        lock(&self.state).closing = true;
        self.notify();
    }

    /// Wait for the end of the relay, for at most `limit`. Return whether the relay has ended.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = lock(&self.state);
        while !state.ended {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Mark the relay as ended, and wake the threads that wait for its end.
    pub fn set_ended(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
    }

    /// Append a line to the outbox.
    pub fn offer(&self, line: Vec<u8>) -> Offer {
        let offer = lock(&self.state).outbox.offer(line);
        self.notify();
        offer
    }

    /// Wait until a line is accepted. Return false if it was not accepted within `limit` and was withdrawn.
    pub fn wait_until_taken(&self, ticket: Ticket, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = lock(&self.state);
        loop {
            if state.outbox.counts_as_taken(ticket) || state.ended {
                return true;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return !state.outbox.withdraw(ticket);
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Serve the relay until it ends.
    pub fn serve(&self, id: &str, listener: &impl Listener) -> Outcome {
        self.wait_until_begun();
        let mut inbox = Inbox::new(now_ns());
        let tell = |heard| listener.tell(notification(id, heard));
        let reason = loop {
            if let Err(reason) = self.turn(&mut inbox, listener.has_room(), &tell) {
                break reason;
            }
        };
        self.line.restore();
        let (last, dropped) = inbox.finish(now_ns());
        last.into_iter().for_each(tell);
        Outcome { reason, dropped }
    }

    fn wait_until_begun(&self) {
        let mut state = lock(&self.state);
        while !state.begun && !state.closing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wait for an event and handle it. Return the reason as an error if the relay has ended.
    fn turn(&self, inbox: &mut Inbox, has_room: bool, tell: &impl Fn(Heard)) -> Result<(), String> {
        let (closing, writes) = {
            let state = lock(&self.state);
            (state.closing, !state.outbox.next().is_empty())
        };
        if closing {
            return Err("closed".to_owned());
        }
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::POLLIN, has_room);
        wanted.set(PollFlags::POLLOUT, writes);
        let mut polled =
            [PollFd::new(self.line.as_fd(), wanted), PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        // An interrupted poll reports no events; the next turn repeats it.
        let _ = poll(&mut polled, if has_room { PollTimeout::NONE } else { LOOK_AGAIN.into() });
        let seen = polled[0].revents().unwrap_or(PollFlags::empty());
        let _ = self.wake.read();
        if seen.contains(PollFlags::POLLOUT) {
            self.write()?;
        }
        if !has_room {
            if seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                // The peer has closed the relay, but its last data are read when the recipient has room.
                thread::sleep(Duration::from_millis(u64::from(LOOK_AGAIN)));
            }
            return Ok(());
        }
        if seen.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            self.read(inbox, tell)?;
        }
        Ok(())
    }

    #[allow(clippy::large_stack_arrays)] // the thread's stack is many times as large as the buffer
    fn read(&self, inbox: &mut Inbox, tell: &impl Fn(Heard)) -> Result<(), String> {
        let mut buffer = [0; 64 * 1024];
        match read(&self.line, &mut buffer) {
            // A terminal whose peer has exited returns EIO.
            Ok(0) | Err(Errno::EIO | Errno::ECONNRESET) => Err("the other side closed it".to_owned()),
            Ok(length) => {
                inbox.push(&buffer[..length], now_ns(), tell);
                Ok(())
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
            Err(errno) => Err(format!("reading: {}", errno.desc().to_lowercase())),
        }
    }

    fn write(&self) -> Result<(), String> {
        let mut state = lock(&self.state);
        match write(&self.line, state.outbox.next()) {
            Ok(length) => {
                state.outbox.advance(length);
                drop(state);
                self.changed.notify_all();
                Ok(())
            }
            // Read the peer's last data first; the read then detects the end.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::EPIPE | Errno::EIO | Errno::ECONNRESET) => Ok(()),
            Err(errno) => Err(format!("writing: {}", errno.desc().to_lowercase())),
        }
    }

    fn notify(&self) {
        // The write fails only if the counter is full, after 2^64 writes; the wake-up works nevertheless.
        let _ = self.wake.write(1);
        self.changed.notify_all();
    }
}

fn notification(id: &str, heard: Heard) -> Notification {
    let id = id.to_owned();
    match heard {
        Heard::Message(message) => Notification::RelayReceived(Received { id, message }),
        Heard::Noise { text, dropped } => Notification::RelayNoise(Noise { id, text, dropped }),
    }
}

/// Interval between checks whether the recipient has room, in ms.
const LOOK_AGAIN: u16 = 10;
