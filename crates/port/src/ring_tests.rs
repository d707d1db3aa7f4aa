//! Tests of both sides of a ring: sequences, wrap-around, dropped reservations; with `--cfg loom`, every interleaving
//! of two threads.

#![allow(clippy::cast_possible_truncation)] // small numbers of a check

#[cfg(not(loom))]
mod sequential {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::{Consumer, Memory, Producer};
    use crate::loopback::{heap_ring, HeapRing};

    fn pair(slots: usize) -> (Producer<HeapRing<u64>>, Consumer<HeapRing<u64>>) {
        heap_ring(vec![0; slots])
    }

    fn submit(producer: &mut Producer<HeapRing<u64>>, items: std::ops::Range<u64>) -> u32 {
        let mut slots = producer.reserve((items.end - items.start) as u32);
        for item in items {
            slots.push(item);
        }
        slots.submit()
    }

    /// Submitted items arrive once, in order, over many turns of a small ring.
    #[test]
    fn ring_items_arrive_once_and_in_order() {
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

    /// A full ring grants no slot, and data written to a dropped reservation is never received.
    #[test]
    fn reservations_are_limited_by_the_ring_size_and_can_be_dropped() {
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

    /// Slots that were read but not released are returned again; released slots are free again.
    #[test]
    fn unreleased_slots_are_returned_again() {
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
    fn ring_indices_wrap_at_32_bits() {
        let (mut producer, mut consumer) = pair(4);
        let start = u32::MAX - 1;
        (producer.next, producer.consumed, consumer.next, consumer.produced) = (start, start, start, start);
        let set = |index: &AtomicU32| index.store(start, Ordering::Relaxed);
        set(producer.memory().producer());
        set(consumer.memory().consumer());
        for turn in 0..4u64 {
            assert_eq!(submit(&mut producer, turn * 3..turn * 3 + 3), 3);
            let mut filled = consumer.take(3);
            assert_eq!(filled.by_ref().collect::<Vec<_>>(), [turn * 3, turn * 3 + 1, turn * 3 + 2]);
            filled.release();
        }
    }

    /// Two threads at full speed neither lose nor duplicate an item.
    #[test]
    fn no_item_is_lost_between_two_threads() {
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

#[cfg(loom)]
mod interleaved {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::Arc;

    use super::super::{Consumer, Index, Memory, Producer};

    impl Index for AtomicU32 {
        fn observe(&self) -> u32 {
            self.load(Ordering::Acquire)
        }

        fn publish(&self, index: u32) {
            self.store(index, Ordering::Release);
        }
    }

    struct Shared {
        producer: AtomicU32,
        consumer: AtomicU32,
        cells: [UnsafeCell<u64>; 2],
    }

    #[derive(Clone)]
    struct ModelRing(Arc<Shared>);

    impl Memory for ModelRing {
        type Item = u64;
        type Index = AtomicU32;

        fn producer(&self) -> &AtomicU32 {
            &self.0.producer
        }

        fn consumer(&self) -> &AtomicU32 {
            &self.0.consumer
        }

        fn slots(&self) -> u32 {
            2
        }

        unsafe fn read(&self, slot: u32) -> u64 {
            // SAFETY: loom itself reports a read of a cell that is being written.
            self.0.cells[slot as usize].with(|cell| unsafe { *cell })
        }

        unsafe fn write(&self, slot: u32, item: u64) {
            // SAFETY: loom itself reports a write of a cell that is being used.
            self.0.cells[slot as usize].with_mut(|cell| unsafe { *cell = item });
        }
    }

    /// In every interleaving of both sides, items arrive once, in order, and no slot is read while it is written.
    #[test]
    fn items_stay_in_order_in_every_interleaving_of_two_threads() {
        loom::model(|| {
            let (producer, consumer) = (AtomicU32::new(0), AtomicU32::new(0));
            let cells = [UnsafeCell::new(0), UnsafeCell::new(0)];
            let ring = ModelRing(Arc::new(Shared { producer, consumer, cells }));
            let (mut producer, mut consumer) = (Producer::new(ring.clone()), Consumer::new(ring));
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
            for item in consumer.take(2) {
                assert_eq!(item, expected);
                expected += 1;
            }
            assert_eq!(expected, sent);
        });
    }
}
