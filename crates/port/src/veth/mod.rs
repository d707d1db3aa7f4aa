//! A veth pair as an end of a wire: frames that leave its near end are read from the ring of an `AF_XDP` socket, and those that
//! arrive there are sent by the far end, many by one call. For frames that come apart; super-frames need a tap.
//!
//! How they are sent is decided once, so that none overtakes another: the kernel has a queue for each way.

mod pair;

use std::os::fd::RawFd;

pub use self::pair::Arrival;
use self::pair::{Pair, FAR};
use crate::error::PortError;
use crate::interface::InterfaceEye;
use crate::live::{BpfLive, BpfLiveTx};
use crate::port::{RxPort, StampedBy, TxPort};
use crate::tap::{Given, TapFrame, TAP_HEADER_BYTES};
use crate::xdp::{AfXdp, AfXdpRx, AfXdpTx, Direction};

/// As many are taken from the ring at once.
const READ_BATCH: usize = 64;
/// Where frames may be joined, so many and more are sent as live frames: the stack takes them in together.
const LIVE_FROM: usize = 16;
/// And no more by one call: larger calls send no copies, but pages that have to come back (see `bpf::live`).
const LIVE_MOST: usize = 240;

/// The end, gone when dropped.
#[derive(Debug)]
pub struct VethPort {
    rx: AfXdpRx,
    tx: AfXdpTx,
    live: Option<BpfLiveTx>,
    eye: InterfaceEye,
    /// In the ring's batch: the next frame, and how many there are.
    next: usize,
    count: usize,
    /// Frames given since the last call.
    waiting: usize,
    /// Whether they are to be sent as live frames.
    by_live: bool,
    _pair: Pair,
}

impl VethPort {
    /// Make the interface `name` in the calling thread's namespace, for frames of up to `frame_bytes`.
    ///
    /// # Errors
    /// When there is one of that name, the frames are too long, the kernel has none of this, or a right is missing.
    pub fn open(name: &str, frame_bytes: usize, arrival: Arrival) -> Result<Self, PortError> {
        let (pair, (tx, rx, live, eye)) = Pair::new(name, frame_bytes, arrival, || {
            let port = AfXdp { frame_bytes, ..AfXdp::new(FAR, Direction::Both) };
            let (tx, rx) = port.open_both()?;
            let live = match arrival {
                Arrival::Apart => None,
                Arrival::Joined => Some(BpfLive { frame_bytes, ..BpfLive::new(FAR) }.open_tx()?),
            };
            Ok((tx, rx, live, InterfaceEye::new(FAR)?))
        })?;
        Ok(Self { rx, tx, live, eye, next: 0, count: 0, waiting: 0, by_live: false, _pair: pair })
    }

    /// Take a frame that left the interface, a tap's header before it; none when no more came.
    ///
    /// # Errors
    /// When the interface has gone.
    pub fn read(&mut self, room: &mut [u8]) -> Result<Option<TapFrame>, PortError> {
        if self.next == self.count {
            (self.next, self.count) = (0, self.rx.poll(READ_BATCH)?);
            if self.count == 0 {
                return Ok(None);
            }
        }
        let frame = self.rx.frame(self.next);
        self.next += 1;
        let length = TAP_HEADER_BYTES + frame.bytes.len();
        room[..TAP_HEADER_BYTES].fill(0);
        room[TAP_HEADER_BYTES..length].copy_from_slice(frame.bytes);
        let came_ns = (frame.stamped_by != StampedBy::Poll).then_some(frame.stamp_ns);
        Ok(Some(TapFrame { length, came_ns }))
    }

    /// Whether frames were taken from the ring that have not been read: they end no wait.
    pub const fn has_more(&self) -> bool {
        self.next < self.count
    }

    /// So many frames are about to be given.
    pub fn expect(&mut self, frames: usize) {
        if self.waiting == 0 {
            self.by_live = self.live.is_some() && frames >= LIVE_FROM;
        }
    }

    /// Let a frame arrive at the interface, at the next `flush`: a tap's header or none, and what stands behind that.
    ///
    /// # Errors
    /// When the interface has gone.
    pub fn write(&mut self, header: &[u8], rest: &[u8]) -> Result<Given, PortError> {
        let (head, rest) = match header.get(TAP_HEADER_BYTES..) {
            Some(head) => (head, rest),
            None => (&[][..], rest.get(TAP_HEADER_BYTES..).unwrap_or_default()),
        };
        let length = head.len() + rest.len();
        if self.by_live && self.waiting >= LIVE_MOST {
            self.flush()?;
        }
        let port: &mut dyn TxPort = match &mut self.live {
            Some(live) if self.by_live => live,
            _ => &mut self.tx,
        };
        if length > port.most_bytes() || length < 14 {
            return Ok(Given::Refused);
        }
        if port.claim(1) == 0 {
            self.flush()?;
            return Ok(Given::Busy);
        }
        let slot = port.slot(0, length);
        slot[..head.len()].copy_from_slice(head);
        slot[head.len()..].copy_from_slice(rest);
        port.publish(1);
        self.waiting += 1;
        Ok(Given::Taken)
    }

    /// Send what was given.
    ///
    /// # Errors
    /// When the interface has gone.
    pub fn flush(&mut self) -> Result<(), PortError> {
        if self.waiting == 0 {
            return Ok(());
        }
        match &mut self.live {
            Some(live) if self.by_live => {
                live.flush()?;
                self.waiting = live.waiting();
            }
            _ => {
                self.tx.flush()?;
                self.waiting = self.tx.waiting();
            }
        }
        Ok(())
    }

    /// Frames that the interface did not take, since it was made: it was down.
    ///
    /// # Errors
    /// When it has gone.
    pub fn refused_frames(&self) -> Result<u64, PortError> {
        Ok(self.eye.look()?.counters.tx_dropped)
    }

    /// Frames that left the interface and found no room in the ring, since it was made.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn unread_frames(&mut self) -> Result<u64, PortError> {
        Ok(self.rx.stats()?.dropped_frames)
    }

    /// The ways that frames take: out of the interface, and into it.
    pub fn path(&self) -> String {
        let sends = self.live.as_ref().map_or_else(|| self.tx.path(), TxPort::path);
        format!("{}, {}", self.rx.path().name, sends.name)
    }

    /// To wait for frames.
    pub fn fd(&self) -> RawFd {
        self.rx.fd()
    }
}
