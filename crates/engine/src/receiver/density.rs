//! Reorder density (RFC 5236 section 4): the displacement of each frame from its position in the sequence without
//! lost frames.

use super::window::Windows;

/// Displacement threshold of RFC 5236: frames with a larger displacement count as lost in the density, and a missing
/// number counts as lost after this many further arrivals (frames).
const THRESHOLD: u8 = 16;
const WAITING: usize = THRESHOLD as usize;

/// Arrivals of a flow that have no receive index yet.
#[derive(Debug, Clone, Copy)]
struct Unplaced {
    /// Next receive index.
    place: u64,
    first: u8,
    count: u8,
    /// arrivals in order, as a ring buffer
    arrivals: [u64; WAITING + 1],
}

/// The reorder density of all flows together.
#[derive(Debug, Clone)]
pub(super) struct Density {
    flows: Box<[Unplaced]>,
    /// frames per displacement, from -THRESHOLD on; positive for late frames
    counts: [u64; 2 * WAITING + 1],
}

impl Density {
    pub fn new(flows: usize) -> Self {
        let empty = Unplaced { place: 0, first: 0, count: 0, arrivals: [0; WAITING + 1] };
        Self { flows: vec![empty; flows].into(), counts: [0; 2 * WAITING + 1] }
    }

    /// Count a frame without displacement, on a flow without pending arrivals.
    #[inline]
    pub const fn note_in_place(&mut self) {
        self.counts[WAITING] += 1;
    }

    /// Start to assign receive indices one by one to flow `index`, in which the frame `sequence` is missing.
    pub fn begin(&mut self, index: usize, sequence: u64) {
        self.flows[index].place = sequence;
    }

    /// Add the first copy of `sequence` to flow `index`, whose newest frame is `next - 1`, and assign receive indices
    /// where possible. Return true if no arrival is pending.
    pub fn arrive(&mut self, index: usize, sequence: u64, next: u64, windows: &Windows) -> bool {
        let flow = &mut self.flows[index];
        flow.arrivals[(usize::from(flow.first) + usize::from(flow.count)) % (WAITING + 1)] = sequence;
        flow.count += 1;
        self.place(index, next, windows, WAITING)
    }

    /// Assign receive indices to the pending arrivals of flow `index` after the end of reception.
    pub fn finish(&mut self, index: usize, next: u64, windows: &Windows) {
        self.place(index, next, windows, 0);
    }

    /// Return the displacements and their frame counts.
    pub fn counts(&self) -> Box<[(i8, u64)]> {
        (-16..).zip(self.counts).filter(|&(_, count)| count > 0).collect()
    }

    /// Assign receive indices while more than `waiting` arrivals are pending or the frame with the next index has
    /// arrived.
    fn place(&mut self, index: usize, next: u64, windows: &Windows, waiting: usize) -> bool {
        let flow = &mut self.flows[index];
        while flow.count > 0 {
            // Frames outside the window count as not arrived in time.
            flow.place = flow.place.max(next.saturating_sub(windows.frames()));
            if flow.place < next && !windows.is_marked(index, flow.place) {
                if usize::from(flow.count) <= waiting {
                    return false;
                }
                flow.place += 1;
                continue;
            }
            let sequence = flow.arrivals[usize::from(flow.first)];
            flow.first = (flow.first + 1) % (THRESHOLD + 1);
            flow.count -= 1;
            let displacement = displacement(flow.place, sequence);
            let counted = usize::try_from(displacement.saturating_add(i64::from(THRESHOLD))).ok();
            if let Some(count) = counted.and_then(|at| self.counts.get_mut(at)) {
                *count += 1;
            }
            // A frame beyond the threshold gets no receive index.
            flow.place += u64::from(displacement <= i64::from(THRESHOLD));
        }
        flow.place >= next
    }
}

/// Return the displacement, positive if `sequence` is late, saturated to `i64`.
fn displacement(place: u64, sequence: u64) -> i64 {
    let by = i64::try_from(place.abs_diff(sequence)).unwrap_or(i64::MAX);
    if place < sequence {
        -by
    } else {
        by
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::{Flow, Jumps};
    use super::*;

    fn density_of(arrivals: &[u64]) -> Vec<(i8, u64)> {
        let (mut flow, mut windows, mut jumps) = (Flow::new(), Windows::new(1, 1024), Jumps::new(1));
        let mut density = Density::new(1);
        for &sequence in arrivals {
            flow.arrive(sequence, 0, &mut windows, &mut jumps, &mut density);
        }
        flow.finish(0, &windows, &mut density);
        density.counts().into()
    }

    /// Compute the density by its definition: the position of a frame is its rank among all sequence numbers that
    /// arrived.
    fn by_definition(arrivals: &[u64]) -> Vec<(i8, u64)> {
        let mut unique = Vec::new();
        arrivals.iter().for_each(|sequence| {
            if !unique.contains(sequence) {
                unique.push(*sequence);
            }
        });
        let mut places = unique.clone();
        places.sort_unstable();
        let mut counts = std::collections::BTreeMap::new();
        for (place, sequence) in places.into_iter().zip(unique) {
            *counts.entry(i8::try_from(place as i64 - sequence as i64).expect("small")).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    #[test]
    fn late_frame_changes_the_displacement_of_the_frames_that_overtook_it() {
        assert_eq!(density_of(&[0, 1, 3, 4, 2, 5]), [(-1, 2), (0, 3), (2, 1)]);
    }

    #[test]
    fn losses_and_duplicates_displace_no_frame() {
        assert_eq!(density_of(&[0, 1, 5, 6, 6, 7, 30, 31, 5]), [(0, 7)]);
        let with_holes: Vec<u64> =
            (0..5000).filter(|sequence| sequence % 7 != 3 && sequence % 900 > 300).collect();
        assert_eq!(density_of(&with_holes), [(0, with_holes.len() as u64)]);
    }

    #[test]
    fn small_displacements_match_the_definition_of_rfc_5236() {
        for seed in 1..200u64 {
            let mut random = crate::random::Random::new(seed);
            let mut arrivals: Vec<u64> = (0..400).filter(|_| random.below(20) > 0).collect();
            for _ in 0..random.below(60) {
                let at = random.below(u32::try_from(arrivals.len()).expect("hundreds") - 8) as usize;
                let length = 2 + random.below(6) as usize;
                arrivals[at..at + length].rotate_left(1);
            }
            let expected = by_definition(&arrivals);
            // The definition presumes knowledge of which frames never arrive; the receiver can tell this only within
            // its threshold.
            if expected.iter().all(|&(displacement, _)| displacement.unsigned_abs() < 8) {
                assert_eq!(density_of(&arrivals), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn frame_later_than_the_threshold_counts_as_lost() {
        let mut arrivals: Vec<u64> = (0..100).filter(|&sequence| sequence != 10).collect();
        arrivals.insert(60, 10);
        assert_eq!(density_of(&arrivals), [(0, 99)]);
    }
}
