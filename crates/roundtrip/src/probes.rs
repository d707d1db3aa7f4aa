//! The end that sends echo requests at constant intervals, whether or not replies arrive, and receives the
//! replies.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use iolab_engine::Histogram;
use iolab_sys::clock::{now_ns, RealtimeOffset};
use iolab_sys::socket::{send, wait_readable_ns};
use iolab_sys::thread::exact_timers;

use crate::echo::Echo;
use crate::packet::Head;
use crate::report::ProbesReport;
use crate::request::{Probes, Protocol};
use crate::schedule::{Schedule, Step};
use crate::slices::Slices;
use crate::socket::{cookie, echo_socket, receive_stamped};
use crate::RoundTripError;

/// Send echo requests and receive replies for the whole duration.
pub fn run(asked: &Probes) -> Result<ProbesReport, RoundTripError> {
    asked.check()?;
    let to = SocketAddr::new(asked.address, asked.port);
    let icmp = asked.protocol == Protocol::Icmp;
    let failed = |source| RoundTripError::system(format!("opening a socket to {}", asked.address), source);
    let socket = echo_socket(asked.source, to, icmp).map_err(failed)?;
    // If the kernel refuses exact timers, requests are sent up to 50 us late; the reported lateness includes this
    // delay.
    let _ = exact_timers();
    let mut probing = Probing::new(asked, socket);
    probing.go()?;
    Ok(probing.report())
}

struct Probing<'a> {
    asked: &'a Probes,
    socket: OwnedFd,
    schedule: Schedule,
    measured_ns: u64,
    end_ns: u64,
    cookie: u64,
    echo: Echo,
    request: Vec<u8>,
    answer: Vec<u8>,
    offset: RealtimeOffset,
    offset_until_ns: u64,
    answered: Answered,
    number: u64,
    meant: u64,
    sent: u64,
    refused: u64,
    rtt_ns: Histogram,
    lateness_ns: Histogram,
    unstamped: u64,
    slices: Slices,
}

impl<'a> Probing<'a> {
    fn new(asked: &'a Probes, socket: OwnedFd) -> Self {
        let begin_ns = now_ns() + LEAD_NS;
        let measured_ns = begin_ns + asked.warm_up_ns;
        let end_ns = measured_ns + asked.duration_ns;
        let cookie = cookie();
        let echo = Echo::of(asked, cookie);
        let schedule = Schedule::new(begin_ns, asked.interval_ns);
        let requests = (asked.warm_up_ns + asked.duration_ns).div_ceil(asked.interval_ns);
        Self {
            asked,
            socket,
            schedule,
            measured_ns,
            end_ns,
            cookie,
            request: vec![0; echo.head_bytes() + asked.payload_bytes as usize],
            answer: vec![0; MOST_DATAGRAM],
            echo,
            offset: RealtimeOffset::measure(),
            offset_until_ns: now_ns() + OFFSET_NS,
            answered: Answered::new(requests),
            number: 0,
            meant: schedule.left_between(measured_ns, end_ns),
            sent: 0,
            refused: 0,
            rtt_ns: Histogram::new(),
            lateness_ns: Histogram::new(),
            unstamped: 0,
            slices: Slices::new(asked.duration_ns, asked.slice_ns),
        }
    }

    fn go(&mut self) -> Result<(), RoundTripError> {
        let failed = |source| RoundTripError::system("waiting for answers", source);
        let give_up_ns = self.end_ns + self.asked.wait_ns;
        loop {
            let now = now_ns();
            if now >= give_up_ns || (now >= self.end_ns && self.answered.count == self.sent) {
                return Ok(());
            }
            let until_ns = if now >= self.end_ns { give_up_ns } else { self.send_due(now)?.min(self.end_ns) };
            if wait_readable_ns(&[self.socket.as_raw_fd()], until_ns.saturating_sub(now_ns()))
                .map_err(failed)?
            {
                self.receive().map_err(failed)?;
            }
        }
    }

    /// Send the request that is due, if any, and return the time at which to call again, in ns.
    fn send_due(&mut self, now: u64) -> Result<u64, RoundTripError> {
        self.schedule.skip_late(now, MOST_LATE_INTERVALS * self.asked.interval_ns);
        match self.schedule.step(now) {
            Step::Wait(due_ns) => Ok(due_ns),
            Step::Send(due_ns) => {
                self.schedule.advance();
                self.send_one(due_ns)?;
                Ok(now)
            }
        }
    }

    fn send_one(&mut self, due_ns: u64) -> Result<(), RoundTripError> {
        let counts = due_ns >= self.measured_ns;
        let number = self.number;
        let payload = self.echo.head_bytes();
        let sent_ns = now_ns();
        Head { cookie: self.cookie, number, sent_ns }.write(&mut self.request[payload..]);
        self.echo.write(number, &mut self.request);
        match send(&self.socket, &self.request) {
            Ok(()) => {
                self.number += 1;
                self.answered.sent(number, counts);
                if counts {
                    self.sent += 1;
                    self.lateness_ns.record(sent_ns - due_ns);
                }
                Ok(())
            }
            Err(error) if is_transient(&error) => {
                self.refused += u64::from(counts);
                Ok(())
            }
            Err(error) => Err(RoundTripError::system(format!("sending to {}", self.asked.address), error)),
        }
    }

    /// Receive all replies that have arrived.
    fn receive(&mut self) -> io::Result<()> {
        let now = now_ns();
        if now >= self.offset_until_ns {
            self.offset = RealtimeOffset::measure();
            self.offset_until_ns = now + OFFSET_NS;
        }
        loop {
            let arrived = match receive_stamped(&self.socket, &mut self.answer, self.offset) {
                Ok(Some(arrived)) => arrived,
                Ok(None) => return Ok(()),
                // The port is closed or the destination is unreachable: the request counts as lost.
                Err(error) if is_transient(&error) => continue,
                Err(error) => return Err(error),
            };
            let at_ns = arrived.at_ns.unwrap_or_else(now_ns);
            let payload = self.echo.payload(&self.answer[..arrived.length]);
            let head = payload.and_then(Head::read).filter(|head| head.cookie == self.cookie);
            let Some(head) = head.filter(|head| head.number < self.number) else { continue };
            if self.answered.first(head.number) {
                // The clock offset is measured twice a second, so the arrival time may be wrong by a few
                // hundred ns.
                let took_ns = at_ns.saturating_sub(head.sent_ns);
                self.rtt_ns.record(took_ns);
                self.slices.record(at_ns.saturating_sub(self.measured_ns), took_ns);
                self.unstamped += u64::from(arrived.at_ns.is_none());
            }
        }
    }

    fn report(self) -> ProbesReport {
        let (slice_ns, slices) = self.slices.into_parts();
        ProbesReport {
            begin_ns: self.measured_ns,
            sent: self.sent,
            unsent: self.meant.saturating_sub(self.sent + self.refused),
            refused: self.refused,
            received: self.answered.count,
            duplicate: self.answered.duplicate,
            reordered: self.answered.reordered,
            rtt_ns: self.rtt_ns,
            lateness_ns: self.lateness_ns,
            stamped: self.unstamped == 0,
            slice_ns,
            slices,
        }
    }
}

/// The set of answered requests that were sent after the warm-up.
struct Answered {
    first_counted: Option<u64>,
    seen: Vec<u64>,
    latest: Option<u64>,
    count: u64,
    duplicate: u64,
    reordered: u64,
}

impl Answered {
    fn new(requests: u64) -> Self {
        let words = usize::try_from(requests.div_ceil(64)).unwrap_or(0);
        Self {
            first_counted: None,
            seen: vec![0; words + 1],
            latest: None,
            count: 0,
            duplicate: 0,
            reordered: 0,
        }
    }

    fn sent(&mut self, number: u64, counts: bool) {
        if counts && self.first_counted.is_none() {
            self.first_counted = Some(number);
        }
    }

    /// Count a reply. Return whether the reply is the first to a request that was sent after the warm-up.
    fn first(&mut self, number: u64) -> bool {
        if self.first_counted.is_none_or(|first| number < first) {
            return false;
        }
        let Some(word) = usize::try_from(number / 64).ok().and_then(|at| self.seen.get_mut(at)) else {
            return false;
        };
        let bit = 1 << (number % 64);
        if *word & bit != 0 {
            self.duplicate += 1;
            return false;
        }
        *word |= bit;
        self.count += 1;
        if self.latest.is_some_and(|latest| number < latest) {
            self.reordered += 1;
        }
        self.latest = self.latest.max(Some(number));
        true
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, OutOfMemory, PermissionDenied,
        WouldBlock,
    };
    let kinds = [
        ConnectionRefused,
        HostUnreachable,
        Interrupted,
        NetworkUnreachable,
        OutOfMemory,
        PermissionDenied,
        WouldBlock,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(NO_BUFFERS)
}

/// `ENOBUFS`.
const NO_BUFFERS: i32 = 105;
const MOST_DATAGRAM: usize = 1 << 16;
/// Delay of the first request after the setup, in ns.
const LEAD_NS: u64 = 1_000_000;
/// Maximum lateness of a request, in intervals; later requests are skipped.
const MOST_LATE_INTERVALS: u64 = 8;
/// Time for which a measured clock offset is used, in ns.
const OFFSET_NS: u64 = 500_000_000;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn requests_of_a_stalled_sender_are_unsent() {
        let asked = Probes {
            protocol: Protocol::Udp,
            source: IpAddr::V4(Ipv4Addr::LOCALHOST),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 9,
            interval_ns: 1_000_000,
            payload_bytes: 56,
            warm_up_ns: 2_000_000,
            duration_ns: 20_000_000,
            wait_ns: 0,
            slice_ns: 20_000_000,
        };
        let socket = echo_socket(asked.source, SocketAddr::new(asked.address, asked.port), false).unwrap();
        let mut probing = Probing::new(&asked, socket);
        std::thread::sleep(std::time::Duration::from_millis(30));
        probing.go().unwrap();
        let report = probing.report();
        assert_eq!((report.sent, report.unsent), (0, 20));
    }

    #[test]
    fn answer_to_a_request_is_counted_once() {
        let mut answered = Answered::new(10);
        answered.sent(0, false);
        answered.sent(1, true);
        assert!(!answered.first(0));
        assert!(answered.first(3));
        assert!(answered.first(1));
        assert!(!answered.first(3));
        assert!(!answered.first(1000));
        assert_eq!((answered.count, answered.duplicate, answered.reordered), (2, 1, 1));
    }
}
