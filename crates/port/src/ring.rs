//! The four `AF_XDP` rings as two roles: a `Producer` reserves slots and submits them, a `Consumer` takes and
//! releases them. This module contains only the index protocol. The memory is abstracted by `Memory`, so that a model
//! checker can run both sides; the socket handles wakeups and frames.

use std::sync::atomic::{AtomicU32, Ordering};

/// A free-running index that one side writes and the other reads. The model checker has a separate implementation.
pub(crate) trait Index {
    /// Read the index of the other side; all its writes before `publish` are visible afterwards.
    fn observe(&self) -> u32;

    /// Publish this side's index; a side that reads the index also sees all earlier writes.
    fn publish(&self, index: u32);
}

impl Index for AtomicU32 {
    #[inline]
    fn observe(&self) -> u32 {
        // Acquire: pairs with the release of the other side's `publish`.
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn publish(&self, index: u32) {
        // Release: pairs with the acquire of the other side's `observe`.
        self.store(index, Ordering::Release);
    }
}

/// Memory shared by two sides: two free-running indices, and slots whose number is a power of two.
pub(crate) trait Memory {
    /// Type of a slot's content.
    type Item: Copy;

    /// Type of the indices.
    type Index: Index;

    /// Return the index one past the newest submitted slot; only the producer writes it.
    fn producer(&self) -> &Self::Index;

    /// Return the index of the oldest unreleased slot; only the consumer writes it.
    fn consumer(&self) -> &Self::Index;

    /// Return the number of slots, a power of two.
    fn slots(&self) -> u32;

    /// Read a slot.
    ///
    /// # Safety
    /// `slot` is below `slots()`, the caller is the consumer, and the slot is between both indices.
    unsafe fn read(&self, slot: u32) -> Self::Item;

    /// Write a slot.
    ///
    /// # Safety
    /// `slot` is below `slots()`, the caller is the producer, and the slot is outside both indices.
    unsafe fn write(&self, slot: u32, item: Self::Item);
}

/// The side that fills slots. Each ring has one producer.
#[derive(Debug)]
pub(crate) struct Producer<M: Memory> {
    memory: M,
    next: u32,
    consumed: u32,
}

impl<M: Memory> Producer<M> {
    /// Create the producer of an unused ring.
    pub(crate) fn new(memory: M) -> Self {
        debug_assert!(memory.slots().is_power_of_two());
        Self { memory, next: 0, consumed: 0 }
    }

    /// Return the number of slots that can be reserved; read the other side's index only if fewer than `wanted` are
    /// known.
    pub(crate) fn free(&mut self, wanted: u32) -> u32 {
        let slots = self.memory.slots();
        if slots - self.next.wrapping_sub(self.consumed) < wanted {
            // Pairs with `Filled::release`: the other side has finished reading the slots.
            self.consumed = self.memory.consumer().observe();
        }
        slots - self.next.wrapping_sub(self.consumed)
    }

    /// Return the number of submitted slots that the other side has not released.
    pub(crate) fn outstanding(&self) -> u32 {
        self.next.wrapping_sub(self.memory.consumer().observe())
    }

    /// Reserve up to `wanted` slots. The other side cannot access them before `Slots::submit`.
    pub(crate) fn reserve(&mut self, wanted: u32) -> Slots<'_, M> {
        let granted = self.free(wanted).min(wanted);
        Slots { ring: self, granted, written: 0 }
    }

    /// Return the ring memory.
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

/// Reserved slots; if dropped without `submit`, the reservation has no effect.
#[must_use = "reserved slots are given back unless they are submitted"]
pub(crate) struct Slots<'a, M: Memory> {
    ring: &'a mut Producer<M>,
    granted: u32,
    written: u32,
}

impl<M: Memory> Slots<'_, M> {
    /// Return the number of granted slots.
    #[cfg(test)]
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Fill the next reserved slot; return false if none is left.
    pub(crate) fn push(&mut self, item: M::Item) -> bool {
        if self.written == self.granted {
            return false;
        }
        let slot = self.ring.next.wrapping_add(self.written) & (self.ring.memory.slots() - 1);
        // SAFETY: masked, so below `slots()`; `&mut Producer` makes this the only producer, and the slot is one of
        // the `granted` slots that the consumer has released and does not access before `submit`.
        unsafe { self.ring.memory.write(slot, item) };
        self.written += 1;
        true
    }

    /// Submit the filled slots to the other side and return their number.
    pub(crate) fn submit(self) -> u32 {
        self.ring.next = self.ring.next.wrapping_add(self.written);
        // Pairs with `Consumer::ready`: the slots are written before the other side can read them.
        self.ring.memory.producer().publish(self.ring.next);
        self.written
    }
}

/// The side that empties slots. Each ring has one consumer.
#[derive(Debug)]
pub(crate) struct Consumer<M: Memory> {
    memory: M,
    next: u32,
    produced: u32,
}

impl<M: Memory> Consumer<M> {
    /// Create the consumer of an unused ring.
    pub(crate) fn new(memory: M) -> Self {
        debug_assert!(memory.slots().is_power_of_two());
        Self { memory, next: 0, produced: 0 }
    }

    /// Return the number of filled slots; read the other side's index only if fewer than `wanted` are known.
    pub(crate) fn ready(&mut self, wanted: u32) -> u32 {
        if self.produced.wrapping_sub(self.next) < wanted {
            // Pairs with `Slots::submit`: the counted slots are written.
            self.produced = self.memory.producer().observe();
        }
        self.produced.wrapping_sub(self.next)
    }

    /// Take up to `wanted` filled slots for reading. The slots stay filled unless `Filled::release` is called.
    pub(crate) fn take(&mut self, wanted: u32) -> Filled<'_, M> {
        let filled = self.ready(wanted).min(wanted);
        Filled { ring: self, filled, read: 0 }
    }

    /// Return the ring memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

/// Filled slots for reading; if dropped without `release`, they stay filled.
#[must_use = "filled slots stay in the ring unless they are released"]
pub(crate) struct Filled<'a, M: Memory> {
    ring: &'a mut Consumer<M>,
    filled: u32,
    read: u32,
}

impl<M: Memory> Filled<'_, M> {
    /// Release the slots that were read, so that the other side can reuse them.
    pub(crate) fn release(self) -> u32 {
        self.ring.next = self.ring.next.wrapping_add(self.read);
        // Pairs with `Producer::free`: all reads are complete before the other side writes the slots again.
        self.ring.memory.consumer().publish(self.ring.next);
        self.read
    }
}

impl<M: Memory> Iterator for Filled<'_, M> {
    type Item = M::Item;

    fn next(&mut self) -> Option<M::Item> {
        if self.read == self.filled {
            return None;
        }
        let slot = self.ring.next.wrapping_add(self.read) & (self.ring.memory.slots() - 1);
        self.read += 1;
        // SAFETY: masked, so below `slots()`; `&mut Consumer` makes this the only consumer, and the producer has
        // filled the slot and does not access it before `release`.
        Some(unsafe { self.ring.memory.read(slot) })
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
