//! Locks that outlive a panic: one failed request must not keep the agent from undoing the others' changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock `mutex`, whatever happened to its last holder.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
