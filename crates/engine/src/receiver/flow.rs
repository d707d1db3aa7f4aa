//! The state of one flow: classification of each arriving sequence number.

use super::density::Density;
use super::report::FlowReport;
use super::window::Windows;

/// Maximum number of sequence gaps remembered per flow, which determine the reordering extent; fewer with many flows,
/// to limit memory.
const HOLES: usize = 16;
const HOLES_OF_ALL: usize = 1 << 20;

/// The class of an arriving frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// First copy, newer than all previous frames.
    InOrder,
    /// First copy, after newer frames (type-P-reordered: RFC 4737 section 3).
    Reordered {
        /// Number of first copies since the earliest newer frame (RFC 4737 section 4.2.1) (frames).
        extent: u64,
    },
    /// A further copy.
    Duplicate,
    /// Older than the window: a copy cannot be distinguished from a first arrival.
    TooLate,
}

/// State and counters of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// Next expected sequence number: one above the newest.
    next: u64,
    unique_frames: u64,
    duplicate_frames: u64,
    reordered_frames: u64,
    too_late_frames: u64,
    pub negative_latency_frames: u64,
    untimed_frames: u64,
    latency_sum_ns: u64,
    latency_min_ns: u64,
    latency_max_ns: u64,
    extent_max_frames: u64,
    hole_count: u64,
    /// Whether frames of the flow wait for a receive index of the reorder density.
    unplaced: bool,
}

impl Flow {
    pub const fn new() -> Self {
        Self {
            next: 0,
            unique_frames: 0,
            duplicate_frames: 0,
            reordered_frames: 0,
            too_late_frames: 0,
            negative_latency_frames: 0,
            untimed_frames: 0,
            latency_sum_ns: 0,
            latency_min_ns: u64::MAX,
            latency_max_ns: 0,
            extent_max_frames: 0,
            hole_count: 0,
            unplaced: false,
        }
    }

    /// Account for the frame `sequence` of this flow with number `index`.
    #[inline]
    pub fn arrive(
        &mut self,
        sequence: u64,
        index: usize,
        windows: &mut Windows,
        jumps: &mut Jumps,
        density: &mut Density,
    ) -> Arrival {
        if sequence >= self.next {
            if sequence > self.next {
                if !self.unplaced {
                    density.begin(index, self.next);
                    self.unplaced = true;
                }
                windows.unmark(index, self.next, sequence);
                jumps.note(index, self.hole_count, Jump { from: self.next, arrival: self.unique_frames });
                self.hole_count += 1;
            }
            windows.mark(index, sequence);
            self.next = sequence.saturating_add(1);
            self.unique_frames += 1;
            if self.unplaced {
                self.unplaced = !density.arrive(index, sequence, self.next, windows);
            } else {
                density.note_in_place();
            }
            return Arrival::InOrder;
        }
        let arrival = self.arrive_late(sequence, index, windows, jumps);
        if matches!(arrival, Arrival::Reordered { .. }) {
            if !self.unplaced {
                // No arrival is pending, so this sequence number was given up as lost.
                density.begin(index, self.next);
            }
            self.unplaced = !density.arrive(index, sequence, self.next, windows);
        }
        arrival
    }

    /// Count a frame without a stamp.
    #[inline]
    pub const fn arrive_unstamped(&mut self) {
        self.unique_frames += 1;
        self.untimed_frames += 1;
    }

    /// Assign receive indices to pending frames of the density after the end of reception.
    pub fn finish(&self, index: usize, windows: &Windows, density: &mut Density) {
        if self.unplaced {
            density.finish(index, self.next, windows);
        }
    }

    fn arrive_late(&mut self, sequence: u64, index: usize, windows: &mut Windows, jumps: &Jumps) -> Arrival {
        if self.next - sequence > windows.frames() {
            self.too_late_frames += 1;
            return Arrival::TooLate;
        }
        if windows.mark(index, sequence) {
            self.duplicate_frames += 1;
            return Arrival::Duplicate;
        }
        let overtaken_at = jumps.overtaken_at(index, self.hole_count, sequence);
        let extent = self.unique_frames - overtaken_at;
        self.unique_frames += 1;
        self.reordered_frames += 1;
        self.extent_max_frames = self.extent_max_frames.max(extent);
        Arrival::Reordered { extent }
    }

    #[inline]
    pub fn note_latency(&mut self, latency_ns: u64) {
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns);
        self.latency_min_ns = self.latency_min_ns.min(latency_ns);
        self.latency_max_ns = self.latency_max_ns.max(latency_ns);
    }

    /// Return the flow's counters, compared with the number of sent frames.
    pub fn report(&self, sent_frames: u64) -> FlowReport {
        let timed = self.unique_frames > self.negative_latency_frames + self.untimed_frames;
        FlowReport {
            sent_frames,
            received_frames: self.unique_frames,
            lost_frames: sent_frames.saturating_sub(self.unique_frames),
            surplus_frames: self.unique_frames.saturating_sub(sent_frames),
            duplicate_frames: self.duplicate_frames,
            reordered_frames: self.reordered_frames,
            too_late_frames: self.too_late_frames,
            negative_latency_frames: self.negative_latency_frames,
            reorder_extent_max_frames: self.extent_max_frames,
            latency_sum_ns: self.latency_sum_ns,
            latency_min_ns: timed.then_some(self.latency_min_ns),
            latency_max_ns: timed.then_some(self.latency_max_ns),
        }
    }
}

/// A gap in the sequence numbers: once the frame after the gap has arrived, the missing frames are late.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Jump {
    /// First missing sequence number.
    pub from: u64,
    /// Number of first copies before the gap.
    pub arrival: u64,
}

/// The newest sequence gaps of all flows.
#[derive(Debug, Clone)]
pub(super) struct Jumps {
    jumps: Box<[Jump]>,
    /// Number of gaps per flow.
    holes: usize,
}

impl Jumps {
    pub fn new(flows: usize) -> Self {
        let holes = (HOLES_OF_ALL / flows.max(1)).clamp(1, HOLES);
        Self { jumps: vec![Jump::default(); holes * flows].into(), holes }
    }

    /// Store gap number `count` of a flow in place of the flow's oldest gap.
    #[inline]
    pub fn note(&mut self, flow: usize, count: u64, jump: Jump) {
        let slot = self.slot(flow, count);
        self.jumps[slot] = jump;
    }

    /// Return the number of first copies before the frame that first overtook `sequence`. If that gap is no longer
    /// stored, use the oldest stored gap, so that the extent is a lower bound.
    pub fn overtaken_at(&self, flow: usize, count: u64, sequence: u64) -> u64 {
        let known = count.saturating_sub(self.holes as u64)..count;
        let known = known.rev().map(|jump| self.jumps[self.slot(flow, jump)]);
        let mut oldest = 0;
        for jump in known {
            oldest = jump.arrival;
            if jump.from <= sequence {
                break;
            }
        }
        oldest
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of at most 15")]
    const fn slot(&self, flow: usize, count: u64) -> usize {
        flow * self.holes + (count % self.holes as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compute the extents by the definition in RFC 4737 section 4.2.1, over every pair of frames.
    fn extents_by_definition(arrivals: &[u64]) -> Vec<Option<u64>> {
        let extent = |i: usize| {
            let overtaken = arrivals[..i].iter().position(|&earlier| earlier > arrivals[i]);
            overtaken.map(|j| (i - j) as u64)
        };
        (0..arrivals.len()).map(extent).collect()
    }

    fn arrivals_of(sequences: &[u64]) -> Vec<Arrival> {
        let (mut flow, mut windows, mut jumps) = (Flow::new(), Windows::new(1, 64), Jumps::new(1));
        let mut density = Density::new(1);
        let mut arrive = |&sequence| flow.arrive(sequence, 0, &mut windows, &mut jumps, &mut density);
        sequences.iter().map(&mut arrive).collect()
    }

    #[test]
    fn reordering_extents_match_rfc_4737() {
        for sequences in [
            vec![0, 1, 3, 4, 2, 5],
            vec![0, 3, 1, 4, 2, 6, 7, 8, 5],
            vec![5, 4, 3, 2, 1, 0],
            vec![0, 8, 1, 16, 2, 24, 9, 3, 17],
        ] {
            let seen: Vec<_> = arrivals_of(&sequences)
                .into_iter()
                .map(|arrival| match arrival {
                    Arrival::Reordered { extent } => Some(extent),
                    _ => None,
                })
                .collect();
            assert_eq!(seen, extents_by_definition(&sequences), "{sequences:?}");
        }
    }

    #[test]
    fn copies_count_as_duplicates_and_frames_before_the_window_as_too_late() {
        assert_eq!(
            arrivals_of(&[0, 0, 70, 5, 70, 6, 7, 7]),
            [
                Arrival::InOrder,
                Arrival::Duplicate,
                Arrival::InOrder,
                Arrival::TooLate,
                Arrival::Duplicate,
                Arrival::TooLate,
                Arrival::Reordered { extent: 1 },
                Arrival::Duplicate,
            ]
        );
    }
}
