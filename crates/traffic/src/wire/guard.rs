//! The heartbeat of an emulated link on a port of the host: the link's own loop sends it, so that the port passes its
//! frames without the link while the loop stalls.

use iolab_port::PortRedirect;

/// Interval between heartbeats (ns).
const BEAT_NS: u64 = 5_000_000;
/// Time without a heartbeat after which frames may have passed without the link: less than the limit of the port's
/// programs, whose clock is read later (ns).
const LAPSE_NS: u64 = PortRedirect::MAX_BEAT_AGE_NS - 2_000_000;

/// The redirection of a port's frames, with its heartbeat.
#[derive(Debug)]
pub struct Guard {
    redirect: PortRedirect,
    /// time of the last heartbeat (ns)
    beat_ns: u64,
    /// time of the next heartbeat (ns)
    next_ns: u64,
}

/// What a heartbeat needs from the loop before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// Nothing: the heartbeat was sent, or is not due.
    Steady,
    /// Frames may have passed without the link: those that the link holds back must be dropped, then the heartbeat
    /// resumes.
    Lapsed,
}

impl Guard {
    /// Maximum sleep of the loop (ns).
    pub const SLEEP_NS: u64 = BEAT_NS;

    /// Guard a port whose programs are attached.
    pub const fn new(redirect: PortRedirect) -> Self {
        Self { redirect, beat_ns: 0, next_ns: 0 }
    }

    /// Send a heartbeat if it is due and frames can come back to the port.
    pub fn pulse(&mut self, now_ns: u64) -> Pulse {
        if now_ns < self.next_ns {
            return Pulse::Steady;
        }
        self.next_ns = now_ns + BEAT_NS;
        if !self.redirect.is_intact() {
            return Pulse::Steady;
        }
        if now_ns - self.beat_ns > LAPSE_NS {
            return Pulse::Lapsed;
        }
        self.beat(now_ns);
        Pulse::Steady
    }

    /// Send a heartbeat.
    pub fn beat(&mut self, now_ns: u64) {
        self.redirect.beat(now_ns);
        self.beat_ns = now_ns;
    }

    /// Return the number of selected packets that passed the port without the link, sent and received.
    pub fn bypassed_packets(&self) -> [u64; 2] {
        self.redirect.passed_packets()
    }
}
