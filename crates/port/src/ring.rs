//! The four `AF_XDP` rings as two roles: a `Producer` reserves slots and submits them, a `Consumer` takes and releases.
//! Only the index protocol is here; where the memory comes from is `Memory`'s business, so that a model checker can
//! run both sides. Wakeups and frames are the socket's.

use std::sync::atomic::{AtomicU32, Ordering};

/// A free-running index that one side writes and the other reads. A model checker has its own.
pub(crate) trait Index {
    /// Reads the other side's index; what it did before its `publish` has happened.
    fn observe(&self) -> u32;

    /// Shows the own index; what was done before is seen by who observes it.
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

/// Memory that two sides share: two free-running indices and a power of two of slots.
pub(crate) trait Memory {
    /// what a slot holds
    type Item: Copy;

    /// what the indices are
    type Index: Index;

    /// The index one past the newest submitted slot; written by the producer only.
    fn producer(&self) -> &Self::Index;

    /// The index of the oldest slot not yet released; written by the consumer only.
    fn consumer(&self) -> &Self::Index;

    /// How many slots there are: a power of two.
    fn slots(&self) -> u32;

    /// Reads a slot.
    ///
    /// # Safety
    /// `slot` is below `slots()`, and the caller is the consumer and the slot lies between both indices.
    unsafe fn read(&self, slot: u32) -> Self::Item;

    /// Writes a slot.
    ///
    /// # Safety
    /// `slot` is below `slots()`, and the caller is the producer and the slot lies outside of both indices.
    unsafe fn write(&self, slot: u32, item: Self::Item);
}

/// The side that fills slots. One per ring.
#[derive(Debug)]
pub(crate) struct Producer<M: Memory> {
    memory: M,
    next: u32,
    consumed: u32,
}

impl<M: Memory> Producer<M> {
    /// Takes the producer's role of a ring nobody has used yet.
    pub(crate) fn new(memory: M) -> Self {
        debug_assert!(memory.slots().is_power_of_two());
        Self { memory, next: 0, consumed: 0 }
    }

    /// How many slots can be reserved now; looks at the other side only when fewer than `wanted` are known.
    pub(crate) fn free(&mut self, wanted: u32) -> u32 {
        let slots = self.memory.slots();
        if slots - self.next.wrapping_sub(self.consumed) < wanted {
            // Pairs with `Filled::release`: the other side's reads of the slots are over.
            self.consumed = self.memory.consumer().observe();
        }
        slots - self.next.wrapping_sub(self.consumed)
    }

    /// How many submitted slots the other side has not released.
    pub(crate) fn outstanding(&self) -> u32 {
        self.next.wrapping_sub(self.memory.consumer().observe())
    }

    /// Reserves up to `wanted` slots. Nothing is visible to the other side before `Slots::submit`.
    pub(crate) fn reserve(&mut self, wanted: u32) -> Slots<'_, M> {
        let granted = self.free(wanted).min(wanted);
        Slots { ring: self, granted, written: 0 }
    }

    /// The memory behind.
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

/// Reserved slots; dropped without `submit`, they are as if never reserved.
#[must_use = "reserved slots are given back unless they are submitted"]
pub(crate) struct Slots<'a, M: Memory> {
    ring: &'a mut Producer<M>,
    granted: u32,
    written: u32,
}

impl<M: Memory> Slots<'_, M> {
    /// How many slots were granted.
    #[cfg(test)]
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Fills the next reserved slot; false when none is left.
    pub(crate) fn push(&mut self, item: M::Item) -> bool {
        if self.written == self.granted {
            return false;
        }
        let slot = self.ring.next.wrapping_add(self.written) & (self.ring.memory.slots() - 1);
        // SAFETY: masked, so below `slots()`; `&mut Producer` makes us the only producer, and the slot is one of the
        // `granted` that the consumer has released and does not see before `submit`.
        unsafe { self.ring.memory.write(slot, item) };
        self.written += 1;
        true
    }

    /// Shows the filled slots to the other side.
    pub(crate) fn submit(self) -> u32 {
        self.ring.next = self.ring.next.wrapping_add(self.written);
        // Pairs with `Consumer::ready`: the slots are written before the other side sees them.
        self.ring.memory.producer().publish(self.ring.next);
        self.written
    }
}

/// The side that empties slots. One per ring.
#[derive(Debug)]
pub(crate) struct Consumer<M: Memory> {
    memory: M,
    next: u32,
    produced: u32,
}

impl<M: Memory> Consumer<M> {
    /// Takes the consumer's role of a ring nobody has used yet.
    pub(crate) fn new(memory: M) -> Self {
        debug_assert!(memory.slots().is_power_of_two());
        Self { memory, next: 0, produced: 0 }
    }

    /// How many slots are filled, at least up to `wanted`; looks at the other side only when fewer are known.
    pub(crate) fn ready(&mut self, wanted: u32) -> u32 {
        if self.produced.wrapping_sub(self.next) < wanted {
            // Pairs with `Slots::submit`: the slots it counts are written.
            self.produced = self.memory.producer().observe();
        }
        self.produced.wrapping_sub(self.next)
    }

    /// Looks at up to `wanted` filled slots. They stay filled unless `Filled::release` is called.
    pub(crate) fn take(&mut self, wanted: u32) -> Filled<'_, M> {
        let filled = self.ready(wanted).min(wanted);
        Filled { ring: self, filled, read: 0 }
    }

    /// The memory behind.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

/// Filled slots being read; dropped without `release`, they stay filled.
#[must_use = "filled slots stay in the ring unless they are released"]
pub(crate) struct Filled<'a, M: Memory> {
    ring: &'a mut Consumer<M>,
    filled: u32,
    read: u32,
}

impl<M: Memory> Filled<'_, M> {
    /// Gives the slots that were read back to the other side.
    pub(crate) fn release(self) -> u32 {
        self.ring.next = self.ring.next.wrapping_add(self.read);
        // Pairs with `Producer::free`: our reads are over before the other side writes again.
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
        // SAFETY: masked, so below `slots()`; `&mut Consumer` makes us the only consumer, and the producer has filled
        // the slot and does not touch it before `release`.
        Some(unsafe { self.ring.memory.read(slot) })
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
