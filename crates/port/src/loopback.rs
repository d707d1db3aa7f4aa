//! An in-memory port: a frame sent at one end arrives at the other, in the same process. The port serves tests and
//! simulations, and uses the same ring protocol as an `AF_XDP` port, with this process on both sides.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iolab_sys::clock;

use crate::error::PortError;
use crate::port::{Path, RxFrame, RxPort, RxStats, StampedBy, TxPort, TxStats};
use crate::ring::{Consumer, Memory, Producer};

#[derive(Debug)]
struct Cells<T> {
    producer: AtomicU32,
    consumer: AtomicU32,
    cells: Box<[UnsafeCell<T>]>,
}

// SAFETY: one producer and one consumer access the cells, and the ring protocol assigns each cell to one of them.
unsafe impl<T: Send> Sync for Cells<T> {}

/// A ring in process memory.
#[derive(Debug)]
pub(crate) struct HeapRing<T>(Arc<Cells<T>>);

impl<T: Copy> Memory for HeapRing<T> {
    type Item = T;
    type Index = AtomicU32;

    fn producer(&self) -> &AtomicU32 {
        &self.0.producer
    }

    fn consumer(&self) -> &AtomicU32 {
        &self.0.consumer
    }

    fn slots(&self) -> u32 {
        u32::try_from(self.0.cells.len()).unwrap_or(u32::MAX)
    }

    unsafe fn read(&self, slot: u32) -> T {
        // SAFETY: the caller is the consumer and the slot is filled, so no thread writes it now.
        unsafe { *self.0.cells[slot as usize].get() }
    }

    unsafe fn write(&self, slot: u32, item: T) {
        // SAFETY: the caller is the producer and the slot is free, so no thread reads it now.
        unsafe { *self.0.cells[slot as usize].get() = item };
    }
}

/// Create a ring and return both roles; the length of `items`, a power of two, is the number of slots.
pub(crate) fn heap_ring<T: Copy>(items: Vec<T>) -> (Producer<HeapRing<T>>, Consumer<HeapRing<T>>) {
    let cells = items.into_iter().map(UnsafeCell::new).collect();
    let (producer, consumer) = (AtomicU32::new(0), AtomicU32::new(0));
    let shared = Arc::new(Cells { producer, consumer, cells });
    (Producer::new(HeapRing(shared.clone())), Consumer::new(HeapRing(shared)))
}

#[derive(Debug)]
struct Frame {
    bytes: Box<[u8]>,
    length: usize,
    stamp_ns: u64,
}

/// All frames of a line. A frame belongs to the holder of its number: the list of one end, or one slot of a ring.
#[derive(Debug)]
struct Pool(Box<[UnsafeCell<Frame>]>);

// SAFETY: each number exists once, so only one thread accesses a frame at a time; the rings order the hand-over.
unsafe impl Sync for Pool {}

impl Pool {
    fn place(&self, number: u32) -> *mut Frame {
        self.0[number as usize].get()
    }
}

/// The sending end of an in-memory line.
#[derive(Debug)]
pub struct LoopbackTx {
    pool: Arc<Pool>,
    there: Producer<HeapRing<u32>>,
    back: Consumer<HeapRing<u32>>,
    free: Vec<u32>,
    claimed: usize,
    waiting: VecDeque<u32>,
    most_bytes: usize,
    path: Path,
    stats: TxStats,
}

/// The receiving end of an in-memory line.
#[derive(Debug)]
pub struct LoopbackRx {
    pool: Arc<Pool>,
    there: Consumer<HeapRing<u32>>,
    back: Producer<HeapRing<u32>>,
    batch: Vec<u32>,
    path: Path,
    stats: RxStats,
}

/// Create both ends of a line for `frames` frames (rounded up to a power of two) of up to `most_bytes`. A full line
/// refuses no frames: new frames stay pending until the receiver has released earlier frames.
pub fn loopback(frames: usize, most_bytes: usize) -> (LoopbackTx, LoopbackRx) {
    let slots = u32::try_from(frames.next_power_of_two()).unwrap_or(1 << 31);
    let frame = |_| Frame { bytes: vec![0; most_bytes].into_boxed_slice(), length: 0, stamp_ns: 0 };
    let pool = Arc::new(Pool((0..slots).map(frame).map(UnsafeCell::new).collect()));
    let (there_in, there_out) = heap_ring(vec![0; slots as usize]);
    let (back_in, back_out) = heap_ring(vec![0; slots as usize]);
    let path = Path::new("loopback");
    let tx = LoopbackTx {
        pool: pool.clone(),
        there: there_in,
        back: back_out,
        free: (0..slots).collect(),
        claimed: 0,
        waiting: VecDeque::with_capacity(slots as usize),
        most_bytes,
        path: path.clone(),
        stats: TxStats::default(),
    };
    let (batch, stats) = (Vec::with_capacity(slots as usize), RxStats::default());
    (tx, LoopbackRx { pool, there: there_out, back: back_in, batch, path, stats })
}

impl TxPort for LoopbackTx {
    fn path(&self) -> &Path {
        &self.path
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        for index in 0..self.claim(usize::MAX) {
            fill(self.slot(index, self.most_bytes));
        }
        self.claimed = 0;
    }

    fn claim(&mut self, frames: usize) -> usize {
        let mut returned = self.back.take(u32::MAX);
        self.free.extend(&mut returned);
        returned.release();
        self.claimed = frames.min(self.free.len());
        self.claimed
    }

    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        assert!(index < self.claimed, "frame {index} of a claim of {}", self.claimed);
        let number = self.free[self.free.len() - 1 - index];
        // SAFETY: the number is in this end's list, so this end owns the frame; `&mut self` makes the reference
        // exclusive.
        let frame = unsafe { &mut *self.pool.place(number) };
        frame.length = frame_bytes;
        &mut frame.bytes[..frame_bytes]
    }

    fn publish(&mut self, frames: usize) {
        let frames = frames.min(self.claimed);
        self.waiting.extend((0..frames).filter_map(|_| self.free.pop()));
        self.claimed = 0;
        self.stats.committed_frames += frames as u64;
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let now_ns = clock::now_ns();
        let mut slots = self.there.reserve(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX));
        for &number in &self.waiting {
            // SAFETY: the number is in this end's list, so this end owns the frame until `submit`.
            unsafe { (*self.pool.place(number)).stamp_ns = now_ns };
            if !slots.push(number) {
                break;
            }
        }
        let sent = slots.submit();
        self.waiting.drain(..sent as usize);
        self.stats.accepted_frames += u64::from(sent);
        self.stats.kicks += 1;
        Ok(())
    }

    fn stats(&mut self) -> Result<TxStats, PortError> {
        let mut now = self.stats;
        now.pending_frames = self.waiting.len() as u64;
        Ok(now)
    }
}

impl RxPort for LoopbackRx {
    fn path(&self) -> &Path {
        &self.path
    }

    fn poll(&mut self, frames: usize) -> Result<usize, PortError> {
        self.release();
        let mut filled = self.there.take(u32::try_from(frames).unwrap_or(u32::MAX));
        self.batch.extend(&mut filled);
        filled.release();
        self.stats.received_frames += self.batch.len() as u64;
        let bytes: usize = (0..self.batch.len()).map(|index| self.frame(index).bytes.len()).sum();
        self.stats.received_bytes += bytes as u64;
        Ok(self.batch.len())
    }

    fn frame(&self, index: usize) -> RxFrame<'_> {
        // SAFETY: the number is in this end's batch, so this end owns the frame until `release`, which needs `&mut
        // self`.
        let frame = unsafe { &*self.pool.place(self.batch[index]) };
        RxFrame {
            bytes: &frame.bytes[..frame.length],
            stamp_ns: frame.stamp_ns,
            stamped_by: StampedBy::Stack,
        }
    }

    fn release(&mut self) {
        // The return ring has a slot for every frame.
        let mut slots = self.back.reserve(u32::try_from(self.batch.len()).unwrap_or(u32::MAX));
        for number in self.batch.drain(..) {
            slots.push(number);
        }
        slots.submit();
    }

    fn wait(&mut self, timeout_ms: i32) -> Result<bool, PortError> {
        let limit = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let begun = Instant::now();
        while self.there.ready(1) == 0 {
            if begun.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::yield_now();
        }
        Ok(true)
    }

    fn stats(&mut self) -> Result<RxStats, PortError> {
        Ok(self.stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{receive, reserve};

    /// Frames arrive in order, frames beyond the capacity of a full line stay pending, and buffers are returned.
    #[test]
    fn frames_arrive_in_order_and_frames_beyond_a_full_line_stay_pending() {
        let (mut tx, mut rx) = loopback(4, 100);
        let mut seen = Vec::new();
        for round in 0..10u8 {
            let mut batch = reserve(&mut tx, 3);
            let granted = batch.granted();
            for index in 0..granted {
                batch.frame(index, 60 + index).fill(round);
            }
            batch.commit(granted);
            tx.flush().unwrap();
            if round % 2 == 1 {
                let mut batch = receive(&mut rx, 8).unwrap();
                while let Some(frame) = batch.next() {
                    seen.push((frame.bytes[0], frame.bytes.len()));
                }
            }
        }
        let (sent, got) = (tx.stats().unwrap(), rx.stats().unwrap());
        assert_eq!(sent.committed_frames, 20);
        assert_eq!((sent.accepted_frames, got.received_frames, sent.pending_frames), (20, 20, 0));
        assert_eq!(seen[..5], [(0, 60), (0, 61), (0, 62), (1, 60), (2, 60)]);
    }

    /// An empty line delivers no frame, and waiting for a frame ends.
    #[test]
    fn receiver_of_an_empty_line_gets_no_frame() {
        let (mut tx, mut rx) = loopback(4, 100);
        assert!(receive(&mut rx, 8).unwrap().is_empty());
        assert!(!rx.wait(1).unwrap());
        let mut primed = 0;
        tx.prime(&mut |bytes| primed += bytes.len());
        assert_eq!(primed, 400);
        reserve(&mut tx, 1).commit(1);
        tx.flush().unwrap();
        assert!(rx.wait(1000).unwrap());
    }
}
