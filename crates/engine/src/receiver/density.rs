//! Reorder density (RFC 5236 section 4): how far each frame came from where it belongs among those that were not lost.

use super::window::Windows;

/// Frames displaced by more than this count as lost in the density, and so many arrivals are waited for before a number that
/// is missing is taken for lost (the displacement threshold of RFC 5236) (frames).
const THRESHOLD: u8 = 16;
const WAITING: usize = THRESHOLD as usize;

/// A flow whose arrivals are not all placed yet.
#[derive(Debug, Clone, Copy)]
struct Unplaced {
    /// The receive index: the number of the next place.
    place: u64,
    first: u8,
    count: u8,
    /// arrivals in order, a ring
    arrivals: [u64; WAITING + 1],
}

/// The density of all flows together.
#[derive(Debug, Clone)]
pub(super) struct Density {
    flows: Box<[Unplaced]>,
    /// by displacement, from -THRESHOLD on; late frames are above zero (frames)
    counts: [u64; 2 * WAITING + 1],
}

impl Density {
    pub fn new(flows: usize) -> Self {
        let empty = Unplaced { place: 0, first: 0, count: 0, arrivals: [0; WAITING + 1] };
        Self { flows: vec![empty; flows].into(), counts: [0; 2 * WAITING + 1] }
    }

    /// A frame came where it belongs, on a flow that has no unplaced ones.
    #[inline]
    pub const fn note_in_place(&mut self) {
        self.counts[WAITING] += 1;
    }

    /// The flow `index` has a frame missing at `sequence`: from here on its arrivals are placed one by one.
    pub fn begin(&mut self, index: usize, sequence: u64) {
        self.flows[index].place = sequence;
    }

    /// Place the first copy `sequence` of flow `index`, whose newest is the one before `next`, and what waited for it. True when
    /// none is unplaced any more.
    pub fn arrive(&mut self, index: usize, sequence: u64, next: u64, windows: &Windows) -> bool {
        let flow = &mut self.flows[index];
        flow.arrivals[(usize::from(flow.first) + usize::from(flow.count)) % (WAITING + 1)] = sequence;
        flow.count += 1;
        self.place(index, next, windows, WAITING)
    }

    /// Place what is left of flow `index`: nothing more will come.
    pub fn finish(&mut self, index: usize, next: u64, windows: &Windows) {
        self.place(index, next, windows, 0);
    }

    /// The displacements that occurred, and how often.
    pub fn counts(&self) -> Box<[(i8, u64)]> {
        (-16..).zip(self.counts).filter(|&(_, count)| count > 0).collect()
    }

    /// Place arrivals as long as more than `waiting` are there or the number of the next place has come.
    fn place(&mut self, index: usize, next: u64, windows: &Windows, waiting: usize) -> bool {
        let flow = &mut self.flows[index];
        while flow.count > 0 {
            // What the window has forgotten did not come in time.
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
            // A frame whose place was given up has none.
            flow.place += u64::from(displacement <= i64::from(THRESHOLD));
        }
        flow.place >= next
    }
}

/// Above zero when `sequence` came late; cut where it no longer counts.
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

    /// By the definition, knowing everything: places are the numbers that came, in order.
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
    fn one_late_frame_moves_those_that_overtook_it_forward() {
        assert_eq!(density_of(&[0, 1, 3, 4, 2, 5]), [(-1, 2), (0, 3), (2, 1)]);
    }

    #[test]
    fn losses_and_copies_displace_nothing() {
        assert_eq!(density_of(&[0, 1, 5, 6, 6, 7, 30, 31, 5]), [(0, 7)]);
        let with_holes: Vec<u64> =
            (0..5000).filter(|sequence| sequence % 7 != 3 && sequence % 900 > 300).collect();
        assert_eq!(density_of(&with_holes), [(0, with_holes.len() as u64)]);
    }

    #[test]
    fn near_displacements_are_those_of_the_definition() {
        for seed in 1..200u64 {
            let mut random = crate::random::Random::new(seed);
            let mut arrivals: Vec<u64> = (0..400).filter(|_| random.below(20) > 0).collect();
            for _ in 0..random.below(60) {
                let at = random.below(u32::try_from(arrivals.len()).expect("hundreds") - 8) as usize;
                let length = 2 + random.below(6) as usize;
                arrivals[at..at + length].rotate_left(1);
            }
            let expected = by_definition(&arrivals);
            // The definition knows which frames will never come; the receiver knows it within its threshold.
            if expected.iter().all(|&(displacement, _)| displacement.unsigned_abs() < 8) {
                assert_eq!(density_of(&arrivals), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_frame_later_than_the_threshold_counts_as_lost() {
        let mut arrivals: Vec<u64> = (0..100).filter(|&sequence| sequence != 10).collect();
        arrivals.insert(60, 10);
        assert_eq!(density_of(&arrivals), [(0, 99)]);
    }
}
