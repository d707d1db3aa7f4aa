//! The end that sends requests: one thread for each connection, with one request in flight.
//!
//! With an interval, the latency starts at the intended send time of a request. Requests that wait for a slow
//! response therefore count with their whole delay, as users would experience it (no coordinated omission).

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use iolab_engine::Histogram;
use iolab_sys::clock::now_ns;
use iolab_sys::thread::exact_timers;

use crate::packet::Head;
use crate::report::TransactionsReport;
use crate::request::{Protocol, Transactions};
use crate::schedule::{Schedule, Step};
use crate::slices::Slices;
use crate::socket::{connect_from, cookie};
use crate::RoundTripError;

/// Results of one connection, without the warm-up.
struct Part {
    lost: u64,
    late: u64,
    unsent: u64,
    latency_ns: Histogram,
    connect_ns: Histogram,
    slices: Slices,
    last_ns: u64,
}

/// Send requests for the whole duration.
pub fn run(asked: &Transactions) -> Result<TransactionsReport, RoundTripError> {
    asked.check()?;
    let together = Barrier::new(usize::from(asked.connections));
    let begun = std::sync::OnceLock::new();
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = (0..asked.connections)
            .map(|number| {
                let (together, begun) = (&together, &begun);
                scope.spawn(move || {
                    let opened = Peer::open(asked);
                    together.wait();
                    let begin_ns = *begun.get_or_init(now_ns);
                    Asking::new(asked, number, begin_ns).ask(opened?)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(lost_thread())))
            .collect::<Vec<_>>()
    });
    let begin_ns = begun.get().copied().unwrap_or_default() + asked.warm_up_ns;
    Ok(merge(asked, begin_ns, parts.into_iter().collect::<Result<_, _>>()?))
}

fn lost_thread() -> RoundTripError {
    RoundTripError::system("asking", std::io::Error::other("a thread was lost"))
}

fn merge(asked: &Transactions, begin_ns: u64, parts: Vec<Part>) -> TransactionsReport {
    let mut whole = Part::new(asked);
    for part in parts {
        whole.lost += part.lost;
        whole.late += part.late;
        whole.unsent += part.unsent;
        whole.latency_ns.merge(&part.latency_ns);
        whole.connect_ns.merge(&part.connect_ns);
        whole.slices.merge(&part.slices);
        whole.last_ns = whole.last_ns.max(part.last_ns);
    }
    let (slice_ns, slices) = whole.slices.into_parts();
    TransactionsReport {
        begin_ns,
        duration_ns: whole.last_ns.saturating_sub(begin_ns).max(asked.duration_ns),
        transactions: whole.latency_ns.count(),
        lost: whole.lost,
        late: whole.late,
        unsent: whole.unsent,
        latency_ns: whole.latency_ns,
        connect_ns: whole.connect_ns,
        slice_ns,
        slices,
    }
}

impl Part {
    fn new(asked: &Transactions) -> Self {
        Self {
            lost: 0,
            late: 0,
            unsent: 0,
            latency_ns: Histogram::new(),
            connect_ns: Histogram::new(),
            slices: Slices::new(asked.duration_ns, asked.slice_ns),
            last_ns: 0,
        }
    }
}

/// The requests of one connection over the whole duration.
struct Asking<'a> {
    asked: &'a Transactions,
    schedule: Option<Schedule>,
    measured_ns: u64,
    end_ns: u64,
    part: Part,
}

impl<'a> Asking<'a> {
    fn new(asked: &'a Transactions, number: u16, begin_ns: u64) -> Self {
        // Stagger the connections, so that together they send at a constant rate.
        let offset_ns = asked.interval_ns * u64::from(number) / u64::from(asked.connections);
        let schedule = Schedule::new(begin_ns + offset_ns, asked.interval_ns.max(1));
        let measured_ns = begin_ns + asked.warm_up_ns;
        let end_ns = measured_ns + asked.duration_ns;
        let schedule = (asked.interval_ns > 0).then_some(schedule);
        Self { asked, schedule, measured_ns, end_ns, part: Part::new(asked) }
    }

    fn ask(mut self, mut peer: Peer) -> Result<Part, RoundTripError> {
        // If the kernel refuses exact timers, requests are sent up to 50 us late; the latency includes this delay.
        let _ = exact_timers();
        while let Some(meant_ns) = self.next() {
            let began_ns = now_ns();
            let connected_ns = peer.connect_again(self.asked)?;
            let answered = peer.transact(self.asked, &mut self.part.late)?;
            let done_ns = now_ns();
            let from_ns = if self.schedule.is_some() { meant_ns } else { began_ns };
            if from_ns < self.measured_ns || from_ns >= self.end_ns {
                continue;
            }
            if !answered {
                self.part.lost += 1;
                continue;
            }
            let took_ns = done_ns - from_ns;
            self.part.latency_ns.record(took_ns);
            self.part.slices.record(done_ns - self.measured_ns, took_ns);
            self.part.last_ns = self.part.last_ns.max(done_ns.min(self.end_ns + self.asked.timeout_ns));
            if let Some(connected_ns) = connected_ns {
                self.part.connect_ns.record(connected_ns);
            }
        }
        Ok(self.part)
    }

    /// Wait until the next request is due. Return its intended send time in ns; `None` at the end.
    fn next(&mut self) -> Option<u64> {
        loop {
            let now_ns = now_ns();
            let Some(schedule) = &mut self.schedule else {
                return (now_ns < self.end_ns).then_some(now_ns);
            };
            if now_ns >= self.end_ns {
                self.part.unsent = schedule.left_between(self.measured_ns, self.end_ns);
                return None;
            }
            match schedule.step(now_ns) {
                Step::Send(due_ns) => {
                    schedule.advance();
                    return Some(due_ns);
                }
                Step::Wait(due_ns) => thread::sleep(Duration::from_nanos(due_ns.min(self.end_ns) - now_ns)),
            }
        }
    }
}

/// The connection or socket to the server.
enum Peer {
    Stream(TcpStream),
    Datagrams { socket: UdpSocket, cookie: u64, number: u64, buffer: Vec<u8> },
}

impl Peer {
    fn open(asked: &Transactions) -> Result<Self, RoundTripError> {
        if asked.protocol == Protocol::Tcp {
            return Ok(Self::Stream(connected(asked)?));
        }
        let to = SocketAddr::new(asked.address, asked.port);
        let failed = |source| RoundTripError::system(format!("opening a socket to {to}"), source);
        let socket = UdpSocket::bind((asked.source, 0)).map_err(failed)?;
        socket.connect(to).map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_nanos(asked.timeout_ns))).map_err(failed)?;
        let length = asked.request_bytes.max(asked.response_bytes) as usize;
        Ok(Self::Datagrams { socket, cookie: cookie(), number: 0, buffer: vec![0; length.max(LEAST_BUFFER)] })
    }

    /// Open a new connection if each request uses a new connection. Return the time to establish the connection, in ns.
    fn connect_again(&mut self, asked: &Transactions) -> Result<Option<u64>, RoundTripError> {
        let Self::Stream(stream) = self else { return Ok(None) };
        if !asked.connect_each {
            return Ok(None);
        }
        let began_ns = now_ns();
        *stream = connected(asked)?;
        Ok(Some(now_ns() - began_ns))
    }

    /// Send a request and wait for the complete response. Return whether the response arrived before the
    /// timeout.
    fn transact(&mut self, asked: &Transactions, late: &mut u64) -> Result<bool, RoundTripError> {
        match self {
            Self::Stream(stream) => stream_once(stream, asked).map(|()| true),
            Self::Datagrams { socket, cookie, number, buffer } => {
                let head = Head { cookie: *cookie, number: *number, sent_ns: 0 };
                *number += 1;
                datagram_once(socket, head, buffer, asked, late)
            }
        }
    }
}

fn connected(asked: &Transactions) -> Result<TcpStream, RoundTripError> {
    let to = SocketAddr::new(asked.address, asked.port);
    let failed = |source| RoundTripError::system(format!("connecting to {to}"), source);
    let stream = connect_from(asked.source, to).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_nanos(asked.timeout_ns))).map_err(failed)?;
    Ok(stream)
}

fn stream_once(stream: &mut TcpStream, asked: &Transactions) -> Result<(), RoundTripError> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let doing = || format!("asking {}:{}", asked.address, asked.port);
    let failed = |source: std::io::Error| match source.kind() {
        ErrorKind::UnexpectedEof => RoundTripError::Closed { doing: doing() },
        _ => RoundTripError::system(doing(), source),
    };
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(asked.request_bytes.max(asked.response_bytes) as usize, 0);
        stream.write_all(&buffer[..asked.request_bytes as usize]).map_err(failed)?;
        stream.read_exact(&mut buffer[..asked.response_bytes as usize]).map_err(failed)
    })
}

fn datagram_once(
    socket: &UdpSocket,
    head: Head,
    buffer: &mut [u8],
    asked: &Transactions,
    late: &mut u64,
) -> Result<bool, RoundTripError> {
    let failed = |source| RoundTripError::system(format!("asking {}:{}", asked.address, asked.port), source);
    head.write(buffer);
    let limit_ns = now_ns() + asked.timeout_ns;
    match socket.send(&buffer[..asked.request_bytes as usize]) {
        Ok(_) => {}
        // The kernel had no buffer, or the server's port was closed for a previous request: the request
        // counts as lost.
        Err(error) if is_transient(error.kind()) => return Ok(false),
        Err(error) => return Err(failed(error)),
    }
    while now_ns() < limit_ns {
        match socket.recv(buffer) {
            Ok(length) => match Head::read(&buffer[..length]) {
                Some(seen) if (seen.cookie, seen.number) == (head.cookie, head.number) => return Ok(true),
                Some(seen) if seen.cookie == head.cookie => *late += 1,
                _ => {}
            },
            Err(error) if is_transient(error.kind()) => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(false)
}

fn is_transient(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused | ErrorKind::OutOfMemory
    )
}

const LEAST_BUFFER: usize = 64;
