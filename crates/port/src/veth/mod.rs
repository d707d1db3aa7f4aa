//! A veth pair as one end of an emulated link: frames sent by the near end are read from the ring of an `AF_XDP` socket
//! on the far end, and the far end sends the frames for the near end, many per system call. For links without
//! super-frames; super-frames need a TAP device.
//!
//! The send path (`AF_XDP` or live frames) is fixed per batch, so that no frame overtakes another: the kernel has a
//! separate queue for each path.

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

/// Maximum number of frames read from the ring at once.
const READ_BATCH: usize = 64;
/// Minimum batch that is sent as live frames if GRO may merge frames: the stack then receives the batch together.
const LIVE_FROM: usize = 16;
/// Maximum number of live frames per call: a larger call sends the original pages instead of copies, and these pages
/// have to return (see `bpf::live`).
const LIVE_MOST: usize = 240;

/// One end of an emulated link on a veth pair, removed on drop.
#[derive(Debug)]
pub struct VethPort {
    rx: AfXdpRx,
    tx: AfXdpTx,
    live: Option<BpfLiveTx>,
    eye: InterfaceEye,
    /// Next frame of the ring's batch, and the batch size.
    next: usize,
    count: usize,
    /// Number of frames written since the last flush.
    waiting: usize,
    /// Whether the frames of this batch are sent as live frames.
    by_live: bool,
    _pair: Pair,
}

impl VethPort {
    /// Create the interface `name` in the calling thread's namespace, for frames of up to `frame_bytes`.
    ///
    /// # Errors
    /// Fails if the name exists, the frames are too long, the kernel lacks a feature, or a permission is missing.
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

    /// Read a frame that the interface sent, preceded by a `virtio_net_hdr`; return none if no frame is queued.
    ///
    /// # Errors
    /// Fails if the interface is gone.
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

    /// Whether frames of the ring's batch are unread; `poll` on the file descriptor does not report them.
    pub const fn has_more(&self) -> bool {
        self.next < self.count
    }

    /// Announce that `frames` frames will be written.
    pub fn expect(&mut self, frames: usize) {
        if self.waiting == 0 {
            self.by_live = self.live.is_some() && frames >= LIVE_FROM;
        }
    }

    /// Deliver a frame to the interface at the next `flush`: `header` is a `virtio_net_hdr` with frame headers, or
    /// empty if `rest` contains all.
    ///
    /// # Errors
    /// Fails if the interface is gone.
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

    /// Send the written frames.
    ///
    /// # Errors
    /// Fails if the interface is gone.
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

    /// Return the number of frames that the interface, since it was created, refused because it was down.
    ///
    /// # Errors
    /// Fails if the interface is gone.
    pub fn refused_frames(&self) -> Result<u64, PortError> {
        Ok(self.eye.look()?.counters.tx_dropped)
    }

    /// Return the number of frames that the interface sent since it was created and that did not fit into the ring.
    ///
    /// # Errors
    /// Fails if the kernel does not return its counters.
    pub fn unread_frames(&mut self) -> Result<u64, PortError> {
        Ok(self.rx.stats()?.dropped_frames)
    }

    /// Return the paths of frames out of the interface and into it.
    pub fn path(&self) -> String {
        let sends = self.live.as_ref().map_or_else(|| self.tx.path(), TxPort::path);
        format!("{}, {}", self.rx.path().name, sends.name)
    }

    /// Return the file descriptor on which to wait for frames.
    pub fn fd(&self) -> RawFd {
        self.rx.fd()
    }
}
