//! Both sides of a ring in ordinary memory: sequences, wrap-around, roll-back; under `--cfg loom` every interleaving.

use super::{Consumer, Memory, Producer};

#[cfg(loom)]
use loom::{cell::UnsafeCell, sync::atomic::AtomicU32, sync::Arc};

#[cfg(not(loom))]
use std::sync::{atomic::AtomicU32, Arc};

#[cfg(not(loom))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

struct Shared {
    producer: AtomicU32,
    consumer: AtomicU32,
    cells: Vec<UnsafeCell<u64>>,
}

// SAFETY: the cells are reached through the ring protocol only, which is what the tests check.
unsafe impl Sync for Shared {}

#[derive(Clone)]
struct HeapRing(Arc<Shared>);

impl Memory for HeapRing {
    type Item = u64;

    fn producer(&self) -> &AtomicU32 {
        &self.0.producer
    }

    fn consumer(&self) -> &AtomicU32 {
        &self.0.consumer
    }

    #[allow(clippy::cast_possible_truncation)] // a test's ring is small
    fn slots(&self) -> u32 {
        self.0.cells.len() as u32
    }

    unsafe fn read(&self, slot: u32) -> u64 {
        // SAFETY: the consumer alone reads this filled slot, so nobody writes it now.
        self.0.cells[slot as usize].with(|cell| unsafe { *cell })
    }

    unsafe fn write(&self, slot: u32, item: u64) {
        // SAFETY: the producer alone writes this free slot, so nobody reads it now.
        self.0.cells[slot as usize].with_mut(|cell| unsafe { *cell = item });
    }
}

fn pair(slots: usize) -> (Producer<HeapRing>, Consumer<HeapRing>) {
    let cells = (0..slots).map(|_| UnsafeCell::new(0)).collect();
    let shared = Shared { producer: AtomicU32::new(0), consumer: AtomicU32::new(0), cells };
    let ring = HeapRing(Arc::new(shared));
    (Producer::new(ring.clone()), Consumer::new(ring))
}

#[cfg(not(loom))]
mod sequential {
    use super::*;

    fn submit(producer: &mut Producer<HeapRing>, items: std::ops::Range<u64>) -> u32 {
        let mut slots = producer.reserve((items.end - items.start) as u32);
        for item in items {
            slots.push(item);
        }
        slots.submit()
    }

    /// What is submitted arrives once, in order, over many turns of a small ring.
    #[test]
    fn items_arrive_once_and_in_order() {
        let (mut producer, mut consumer) = pair(8);
        let (mut sent, mut seen) = (0, Vec::new());
        for step in 1..200u64 {
            sent += u64::from(submit(&mut producer, sent..sent + step % 9));
            let mut filled = consumer.take((step % 5) as u32);
            seen.extend(&mut filled);
            filled.release();
        }
        let mut rest = consumer.take(8);
        seen.extend(&mut rest);
        rest.release();
        assert!(sent > 300);
        assert_eq!(seen, (0..sent).collect::<Vec<_>>());
    }

    /// A full ring grants nothing, and what a dropped reservation wrote is never seen.
    #[test]
    fn reservations_end_at_the_ring_and_roll_back() {
        let (mut producer, mut consumer) = pair(4);
        {
            let mut dropped = producer.reserve(2);
            assert_eq!(dropped.granted(), 2);
            assert!(dropped.push(99) && dropped.push(98) && !dropped.push(97));
        }
        assert_eq!(consumer.take(4).count(), 0);
        assert_eq!(submit(&mut producer, 0..9), 4);
        assert_eq!(producer.reserve(1).granted(), 0);
        assert_eq!(producer.outstanding(), 4);
        assert_eq!(consumer.take(4).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    /// Slots looked at but not released are seen again; released ones are free again.
    #[test]
    fn unreleased_slots_are_seen_again() {
        let (mut producer, mut consumer) = pair(4);
        submit(&mut producer, 0..4);
        assert_eq!(consumer.take(3).collect::<Vec<_>>(), [0, 1, 2]);
        let mut filled = consumer.take(3);
        assert_eq!((filled.next(), filled.next()), (Some(0), Some(1)));
        assert_eq!(filled.release(), 2);
        assert_eq!(producer.free(4), 2);
        assert_eq!(consumer.take(9).collect::<Vec<_>>(), [2, 3]);
    }

    /// Indices run past 2^32 without a gap.
    #[test]
    fn indices_wrap_at_their_width() {
        let (mut producer, mut consumer) = pair(4);
        let start = u32::MAX - 1;
        (producer.next, producer.consumed, consumer.next, consumer.produced) = (start, start, start, start);
        let ordering = std::sync::atomic::Ordering::Relaxed;
        producer.memory().producer().store(start, ordering);
        consumer.memory().consumer().store(start, ordering);
        for turn in 0..4u64 {
            assert_eq!(submit(&mut producer, turn * 3..turn * 3 + 3), 3);
            let mut filled = consumer.take(3);
            assert_eq!(filled.by_ref().collect::<Vec<_>>(), [turn * 3, turn * 3 + 1, turn * 3 + 2]);
            filled.release();
        }
    }

    /// Two threads at full speed lose nothing and see nothing twice.
    #[test]
    fn two_threads_lose_nothing() {
        const ITEMS: u64 = 20_000;
        let (mut producer, mut consumer) = pair(16);
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < ITEMS {
                sent += u64::from(submit(&mut producer, sent..(sent + 7).min(ITEMS)));
                std::thread::yield_now();
            }
        });
        let mut expected = 0;
        while expected < ITEMS {
            let mut filled = consumer.take(5);
            for item in filled.by_ref() {
                assert_eq!(item, expected);
                expected += 1;
            }
            filled.release();
            std::thread::yield_now();
        }
        sender.join().unwrap();
    }
}

/// In every interleaving of both sides, items arrive once, in order, and no slot is read while it is written.
#[cfg(loom)]
#[test]
fn every_interleaving_keeps_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = pair(2);
        let sender = loom::thread::spawn(move || {
            let mut next = 0;
            for _ in 0..3 {
                let mut slots = producer.reserve(2);
                while slots.push(next) {
                    next += 1;
                }
                slots.submit();
            }
            next
        });
        let mut expected = 0;
        for _ in 0..3 {
            let mut filled = consumer.take(2);
            for item in filled.by_ref() {
                assert_eq!(item, expected);
                expected += 1;
            }
            filled.release();
        }
        let sent = sender.join().unwrap();
        expected += consumer.take(2).count() as u64;
        assert_eq!(expected, sent);
    });
}
