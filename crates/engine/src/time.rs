//! Time in the engine: nanoseconds, passed by the caller.

use serde::{Deserialize, Serialize};

/// A time on the caller's monotonic clock, or a span between two times (ns).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero time.
    pub const ZERO: Self = Self(0);
    /// Maximum time, later than any other.
    pub const MAX: Self = Self(u64::MAX);

    /// Convert microseconds to a span.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Convert milliseconds to a span.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Convert seconds to a span.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Return the sum of this time and `span`.
    #[must_use]
    #[inline]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Return the span since `earlier`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}
