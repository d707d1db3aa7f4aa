//! `AF_XDP` ports: checks of the interface, one socket per queue, attachment of the receive program. If any step
//! fails, the interface is unchanged.

mod rx;
mod socket;
mod tx;

use std::ops::Range;
use std::sync::Arc;

pub use crate::bpf::Attach;
use crate::bpf::{FrameMatch, ReceiveProgram};
use crate::error::PortError;
use crate::interface::Interface;
use crate::port::Path;
pub use rx::AfXdpRx;
use socket::{RxRings, Shape, Socket, TxRings, HEADROOM_BYTES};
pub use tx::AfXdpTx;

/// The required halves of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Sending only; needs no XDP program.
    Send,
    /// Receiving only.
    Receive,
    /// Sending and receiving, for one or two threads.
    Both,
}

/// Whether to request zero-copy mode from the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Copy mode: works with every driver.
    No,
    /// Zero-copy mode if the driver supports it, else copy mode with the reason reported.
    IfPossible,
}

/// The configuration of an `AF_XDP` port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfXdp {
    /// Interface name.
    pub interface: String,
    /// Required halves.
    pub direction: Direction,
    /// Receive queues; frames are sent through the first. An empty range means all queues.
    pub queues: Range<u32>,
    /// Number of sending halves, each with a separate queue and socket, from the first queue on.
    pub senders: u32,
    /// Maximum frame length (bytes, without FCS).
    pub frame_bytes: usize,
    /// Number of VLAN tags in the longest frame.
    pub vlan_tags: u8,
    /// Number of transmit buffers, a power of two; a small number stays in the cache (frames).
    pub send_frames: u32,
    /// Number of receive buffers per queue, a power of two; a large number outlasts a stall of the receiving thread:
    /// 16384 last 8 ms at 2 Mpps (frames).
    pub receive_frames: u32,
    /// Copy or zero-copy mode.
    pub zero_copy: ZeroCopy,
    /// Attach mode of the receive program.
    pub attach: Attach,
    /// Filter for received frames; all frames if absent. Other frames go to the host and count as foreign.
    pub only: Option<FrameMatch>,
    /// Whether to replace an XDP program on the interface, and restore it when the port is closed.
    pub force: bool,
}

impl AfXdp {
    /// Return the default configuration: all queues, frames of 1518 B with FCS, 2048 transmit and 16384 receive
    /// buffers, native mode first.
    pub fn new(interface: &str, direction: Direction) -> Self {
        Self {
            interface: interface.to_owned(),
            direction,
            queues: 0..0,
            senders: 1,
            frame_bytes: 1514,
            vlan_tags: 0,
            send_frames: 2048,
            receive_frames: 16384,
            zero_copy: ZeroCopy::No,
            attach: Attach::NativeFirst,
            only: None,
            force: false,
        }
    }

    /// Open a port for sending.
    ///
    /// # Errors
    /// Fails if the interface cannot carry the frames, or the kernel refuses.
    pub fn open_tx(&self) -> Result<AfXdpTx, PortError> {
        Self { senders: 1, ..self.clone() }.open_senders()?.pop().ok_or(MISSING)
    }

    /// Open the sending halves of a port, one per sender; they may be used by different threads.
    ///
    /// # Errors
    /// Fails under the same conditions as [`AfXdp::open_tx`], and if there are more senders than transmit queues.
    pub fn open_senders(&self) -> Result<Vec<AfXdpTx>, PortError> {
        let this = Self { direction: Direction::Send, ..self.clone() };
        Ok(this.open()?.0)
    }

    /// Open a port for receiving.
    ///
    /// # Errors
    /// Fails if the interface cannot carry the frames, has an XDP program, or the kernel refuses.
    pub fn open_rx(&self) -> Result<AfXdpRx, PortError> {
        let this = Self { direction: Direction::Receive, ..self.clone() };
        this.open()?.1.ok_or(MISSING)
    }

    /// Open one sending half and the receiving half; they share a socket on the first queue and may be used by
    /// different threads.
    ///
    /// # Errors
    /// Fails under the same conditions as [`AfXdp::open_rx`].
    pub fn open_both(&self) -> Result<(AfXdpTx, AfXdpRx), PortError> {
        let (mut senders, rx) = Self { senders: 1, ..self.clone() }.open_all()?;
        Ok((senders.pop().ok_or(MISSING)?, rx))
    }

    /// Open all sending halves and the receiving half.
    ///
    /// # Errors
    /// Fails under the same conditions as [`AfXdp::open_rx`] and [`AfXdp::open_senders`].
    pub fn open_all(&self) -> Result<(Vec<AfXdpTx>, AfXdpRx), PortError> {
        let this = Self { direction: Direction::Both, ..self.clone() };
        let (tx, rx) = this.open()?;
        Ok((tx, rx.ok_or(MISSING)?))
    }

    fn open(&self) -> Result<(Vec<AfXdpTx>, Option<AfXdpRx>), PortError> {
        let (interface, chunk_bytes) = self.check()?;
        let queues = if self.queues.is_empty() { 0..interface.queues } else { self.queues.clone() };
        let (sends, receives) = (self.direction != Direction::Receive, self.direction != Direction::Send);
        let sending = queues.start..queues.start + if sends { self.senders } else { 0 };
        let receiving_from = queues.start..if receives { queues.end } else { queues.start };
        let (mut tx, mut receiving, mut mode, mut reason) = (Vec::new(), Vec::new(), "copy", None);
        // Attach the program first: after a refusal no socket exists, and drivers require a program for zero-copy
        // mode.
        let program =
            if receives { Some(ReceiveProgram::attach(&interface, self, queues.end)?) } else { None };
        for queue in queues.start..sending.end.max(receiving_from.end) {
            let send_frames = if sending.contains(&queue) { self.send_frames } else { 0 };
            let receive_frames = if receiving_from.contains(&queue) { self.receive_frames } else { 0 };
            let shape = Shape { chunk_bytes, send_frames, receive_frames };
            let (socket, tx_rings, mut rx_rings) = Socket::new(shape)?;
            if let Some(rings) = &mut rx_rings {
                fill(rings, &socket, send_frames);
            }
            (mode, reason) = socket.bind(&interface, queue, self.zero_copy == ZeroCopy::IfPossible)?;
            if let Some(program) = program.as_ref().filter(|_| rx_rings.is_some()) {
                program.feed(queue, socket.raw_fd())?;
            }
            let socket = Arc::new(socket);
            tx.extend(tx_rings.map(|rings| self.sender(socket.clone(), rings, mode, reason.clone())));
            receiving.extend(rx_rings.map(|rings| rx::Queue { socket, rings }));
        }
        let rx = program.map(|program| self.receiver(program, receiving, mode, reason));
        Ok((tx, rx))
    }

    fn sender(&self, socket: Arc<Socket>, rings: TxRings, mode: &str, reason: Option<String>) -> AfXdpTx {
        let mut path = Path::new(format!("AF_XDP {mode}"));
        path.fallbacks.extend(reason);
        AfXdpTx::new(socket, rings, self.send_frames, self.frame_bytes, path)
    }

    fn receiver(
        &self,
        program: ReceiveProgram,
        queues: Vec<rx::Queue>,
        mode: &str,
        reason: Option<String>,
    ) -> AfXdpRx {
        let mut path = Path::new(format!("AF_XDP {} {mode}", program.mode()));
        path.fallbacks.extend(program.fallback().map(str::to_owned));
        path.fallbacks.extend(reason);
        AfXdpRx::new(program, queues, path, self.receive_frames)
    }

    fn check(&self) -> Result<(Interface, usize), PortError> {
        let interface = Interface::find(&self.interface)?;
        interface.check(self.frame_bytes, self.vlan_tags)?;
        for (what, frames) in [("send_frames", self.send_frames), ("receive_frames", self.receive_frames)] {
            if !frames.is_power_of_two() || !(64..=65536).contains(&frames) {
                let (seen, allowed) = (u64::from(frames), "a power of two from 64 to 65536");
                return Err(PortError::BadValue { what, seen, allowed });
            }
        }
        let last = if self.queues.is_empty() { 0 } else { self.queues.end - 1 };
        if last >= interface.queues {
            let (name, queues) = (interface.name, interface.queues);
            return Err(PortError::NoQueue { name, queue: last, queues });
        }
        let sends = self.direction != Direction::Receive;
        if sends && self.queues.start + self.senders > interface.send_queues {
            let (name, queues) = (interface.name, interface.send_queues);
            return Err(PortError::SendQueues { name, senders: self.senders, queues });
        }
        let needed = self.frame_bytes + if self.direction == Direction::Send { 0 } else { HEADROOM_BYTES };
        // The kernel supports chunks of 2048 B or a page.
        match [2048, 4096].into_iter().find(|&chunk_bytes| needed <= chunk_bytes) {
            Some(chunk_bytes) => Ok((interface, chunk_bytes)),
            None => Err(PortError::FrameOverPath {
                name: interface.name,
                path: "AF_XDP",
                frame_bytes: self.frame_bytes,
                most_bytes: 4096 - (needed - self.frame_bytes),
            }),
        }
    }
}

const MISSING: PortError =
    PortError::BadValue { what: "the number of queues", seen: 0, allowed: "at least one queue" };

/// Put every chunk that is not for sending into the fill ring.
fn fill(rings: &mut RxRings, socket: &Socket, first_chunk: u32) {
    let chunk_bytes = socket.umem.chunk_bytes as u64;
    let mut slots = rings.fill.reserve(socket.umem.chunks - first_chunk);
    for chunk in first_chunk..socket.umem.chunks {
        slots.push(u64::from(chunk) * chunk_bytes);
    }
    slots.submit();
}
