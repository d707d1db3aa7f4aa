//! Locks that survive a panic: one failed request must not prevent the undo of other changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock `mutex`, even if its last holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
