//! One direction of an emulated link: frames are decided on individually, and consecutive segments of a super-frame
//! are forwarded together.

use iolab_engine::impairment::{Outcome, Passing};
use iolab_engine::Nanos;
use iolab_frame::{
    finish, is_about_neighbours, is_ecn_capable, mark_congestion, RunHeader, Segments, TAP_HEADER_BYTES,
};
use iolab_port::{End, Given, PortError, TapFrame};
use iolab_protocol::wire::{StageLoss, WayCounts};
use iolab_sys::clock::StampClock;

use super::does::Does;
use super::lead::Lead;
use super::spacing::{Spacing, CALL};
use crate::held::Held;

/// Maximum length of one read from a TAP device: its header, Ethernet with two tags, and 64 KiB (bytes).
const MOST_READ_BYTES: usize = TAP_HEADER_BYTES + 22 + 65_536;
/// Lateness above which frames count as late (ns).
const LATE_NS: u64 = 100_000;
/// Lateness above which frames count as very late (ns).
const VERY_LATE_NS: u64 = 1_000_000;

/// One direction of an emulated link.
#[derive(Debug)]
pub struct Way {
    does: Does,
    /// Frames that arrived before the last changes of impairments and have not left yet.
    older: Vec<Held>,
    counts: WayCounts,
    header: RunHeader,
    scratch: Vec<u8>,
    lead: Lead,
}

impl Way {
    /// Create a direction with these impairments.
    pub fn new(does: Does) -> Self {
        let scratch = Vec::with_capacity(MOST_READ_BYTES);
        Self {
            does,
            older: Vec::new(),
            counts: WayCounts::default(),
            header: RunHeader::default(),
            scratch,
            lead: Lead::new(),
        }
    }

    /// Change the impairments for frames that arrive from now on; frames in flight are decided on and leave at their
    /// times.
    pub fn change(&mut self, does: Does) {
        self.does.chain.advance(Nanos::MAX);
        self.settle();
        self.counts.stages = self.stages();
        (self.counts.paced_ns, self.counts.short_ns) = self.paced_and_short_ns();
        let before = std::mem::replace(&mut self.does, does);
        self.older.push(before.held);
        self.older.retain(|held| held.due().is_some());
    }

    /// Restart the random draws with this seed for frames that arrive from now on; lines and stalls keep their state.
    pub fn restart_draws(&mut self, seed: u64, index: u64) {
        self.does.restart_draws(seed, index);
    }

    /// Return the frame counts.
    pub fn counts(&self) -> WayCounts {
        let held_frames = self.older.iter().chain([&self.does.held]).map(Held::frames).sum();
        let (paced_ns, short_ns) = self.paced_and_short_ns();
        WayCounts { stages: self.stages(), held_frames, paced_ns, short_ns, ..self.counts.clone() }
    }

    fn paced_and_short_ns(&self) -> (u64, u64) {
        let (paced, short) = self.does.spacing.as_ref().map_or((0, 0), Spacing::paced_and_short_ns);
        (self.counts.paced_ns + paced, self.counts.short_ns + short)
    }

    /// Return the number of arrived and departed frames.
    pub const fn passed(&self) -> (u64, u64) {
        (self.counts.arrived_frames, self.counts.left_frames)
    }

    fn stages(&self) -> Vec<StageLoss> {
        let mut stages = self.counts.stages.clone();
        for (kind, lost_frames) in self.does.losses() {
            match stages.iter_mut().find(|stage| stage.kind == kind) {
                Some(stage) => stage.lost_frames += lost_frames,
                None => stages.push(StageLoss { kind: kind.to_owned(), lost_frames }),
            }
        }
        stages
    }

    /// Return the time of the next action if no further frame arrives.
    pub fn due(&self) -> Option<Nanos> {
        let due = self.older.iter().filter_map(Held::due).chain(self.does.due()).min();
        due.map(|due| due.since(Nanos(self.lead.ns())))
    }

    /// Return the departure time of the first decided frame.
    pub fn leaves(&self) -> Option<Nanos> {
        self.does.leaves()
    }

    /// Whether arriving frames can wait before they are read.
    pub fn can_wait(&self, now_ns: u64) -> bool {
        self.does.delays && self.does.chain.due().is_none_or(|due| due.0 > now_ns)
    }

    /// Whether the direction spaces its frames.
    pub const fn spaces(&self) -> bool {
        self.does.spacing.is_some()
    }

    /// Read up to `most` frames and decide on them; return the number of reads. If frames are spaced, stop early when
    /// a frame is due.
    pub fn take(&mut self, from: &mut End, clock: &mut StampClock, most: usize) -> Result<usize, PortError> {
        let before = Nanos(clock.now_ns());
        self.counts.slipped_ns += self.does.slip(before).0;
        for read in 0..most {
            if !self.read(from, clock)? {
                // All frames that arrived before the poll have been read.
                self.does.chain.advance(self.does.stage_time(before));
                self.settle();
                return Ok(read);
            }
            if self.spaces() {
                self.settle();
                if self.does.leaves().is_some_and(|due| due.0 <= clock.now_ns() + self.lead.ns()) {
                    return Ok(read + 1);
                }
            }
        }
        self.settle();
        Ok(most)
    }

    fn read(&mut self, from: &mut End, clock: &mut StampClock) -> Result<bool, PortError> {
        let Some(room) = self.does.held.vacancy(MOST_READ_BYTES) else { return self.overflow(from) };
        let Some(TapFrame { length, came_ns }) = from.read(room)? else { return Ok(false) };
        self.arrive(length, Nanos(came_ns.unwrap_or_else(|| clock.now_ns())));
        Ok(true)
    }

    /// Decide on the content of the last vacancy: each segment is a separate frame.
    fn arrive(&mut self, length: usize, at: Nanos) {
        let bytes = self.does.held.shown(length);
        let segments = Segments::of(bytes);
        let frame = bytes.get(TAP_HEADER_BYTES..).unwrap_or_default();
        let (ecn_capable, spared) = (is_ecn_capable(frame), is_about_neighbours(frame));
        let class = self.does.spacing.as_ref().and_then(|spacing| spacing.class_of(frame));
        let most = segments.line_bytes(bytes, 0);
        let last = segments.line_bytes(bytes, segments.count - 1);
        let first = self.does.held.keep(length, segments.count);
        self.counts.arrived_frames += u64::from(segments.count);
        for part in 0..segments.count {
            let frame_bytes = if part + 1 == segments.count { last } else { most };
            let frame = Passing::new(first + u64::from(part), frame_bytes, self.does.stage_time(at));
            self.does.chain.push(Passing { number: self.does.number, spared, ecn_capable, class, ..frame });
            // Frames exempt from random impairments have no number, because their times do not depend on the trial.
            self.does.number += u64::from(!spared);
        }
        self.counts.spared_frames += if spared { segments.count.into() } else { 0 };
    }

    /// Read a frame for which there is no memory, and count it as lost.
    fn overflow(&mut self, from: &mut End) -> Result<bool, PortError> {
        self.scratch.resize(MOST_READ_BYTES, 0);
        let Some(frame) = from.read(&mut self.scratch)? else { return Ok(false) };
        let frames = u64::from(Segments::of(&self.scratch[..frame.length]).count);
        self.does.number += frames;
        self.counts.arrived_frames += frames;
        self.counts.no_room_frames += frames;
        Ok(true)
    }

    /// Drop the frames that are queued at `from`, and the frames that are due: later frames have passed them.
    pub fn drop_stale(&mut self, from: &mut End, now_ns: u64) -> Result<(), PortError> {
        self.scratch.resize(MOST_READ_BYTES, 0);
        while let Some(frame) = from.read(&mut self.scratch)? {
            let frames = u64::from(Segments::of(&self.scratch[..frame.length]).count);
            self.does.number += frames;
            self.counts.arrived_frames += frames;
            self.counts.stale_frames += frames;
        }
        self.does.chain.advance(self.does.stage_time(Nanos(now_ns)));
        self.settle();
        for held in self.older.iter_mut().chain([&mut self.does.held]) {
            let stale = held.ready(Nanos(now_ns), usize::MAX);
            held.release(stale);
            self.counts.stale_frames += stale as u64;
        }
        Ok(())
    }

    fn settle(&mut self) {
        for outcome in self.does.chain.decided() {
            match outcome {
                Outcome::Leaves(frame) => {
                    self.counts.copied_frames += u64::from(frame.marks.copy);
                    self.counts.passed_bytes += u64::from(frame.frame_bytes);
                    self.does.held.leaves(frame);
                }
                Outcome::Lost(frame, _) => {
                    // A lost copy also counts as a copy.
                    self.counts.copied_frames += u64::from(frame.marks.copy);
                    self.counts.lost_copies_frames += u64::from(frame.marks.copy);
                    self.does.held.lost(frame.id);
                }
            }
        }
    }

    /// Send up to about `most` due frames, or one frame if frames are spaced; return the number of sent frames.
    pub fn give(&mut self, to: &mut End, clock: &mut StampClock, most: usize) -> Result<usize, PortError> {
        let now = Nanos(clock.now_ns() + self.lead.ns());
        if self.older.is_empty() && self.does.held.due().is_none_or(|due| due > now) {
            return Ok(0);
        }
        let mut older = std::mem::take(&mut self.older);
        let mut given = 0;
        for held in &mut older {
            given += self.give_of(held, now, to, most)?;
        }
        older.retain(|held| held.due().is_some());
        self.older = older;
        let mut held = std::mem::take(&mut self.does.held);
        let began_ns = clock.now_ns();
        let outcome = match self.does.spacing.take() {
            None => self.give_of(&mut held, now, to, most),
            Some(mut spacing) => {
                let outcome = self.give_spaced(&mut held, &mut spacing, clock, to);
                self.does.spacing = Some(spacing);
                outcome
            }
        };
        self.does.held = held;
        let given = given + outcome?;
        if given == 1 {
            self.lead.called(clock.now_ns().saturating_sub(began_ns));
        }
        Ok(given)
    }

    /// Send one frame if it is due; the next frame has a separate due time.
    fn give_spaced(
        &mut self,
        held: &mut Held,
        spacing: &mut Spacing,
        clock: &mut StampClock,
        to: &mut End,
    ) -> Result<usize, PortError> {
        let now = Nanos(clock.now_ns() + self.lead.ns());
        self.counts.slipped_ns += spacing.slip(held, now).0;
        if spacing.due(held).is_none_or(|due| due > now) {
            return Ok(0);
        }
        to.expect(1);
        let (given, frame) = self.send(held, 0, 1, to)?;
        to.flush()?;
        match given {
            Given::Busy => return Ok(0),
            Given::Refused => self.counts.refused_frames += 1,
            Given::Taken => {}
        }
        let left = now.max(Nanos(clock.now_ns()).since(CALL));
        self.counts.slipped_ns += spacing.slip(held, left).0;
        let slipped = spacing.left(&frame, left);
        if given == Given::Taken {
            self.count(frame, 1, now.plus(slipped));
        }
        held.release(1);
        Ok(1)
    }

    fn give_of(
        &mut self,
        held: &mut Held,
        now: Nanos,
        to: &mut End,
        most: usize,
    ) -> Result<usize, PortError> {
        let ready = held.ready(now, most);
        let mut index = 0;
        to.expect(ready);
        while index < ready {
            let frames = held.run(index, ready);
            let (given, frame) = self.send(held, index, frames, to)?;
            match given {
                Given::Busy => break,
                Given::Refused => self.counts.refused_frames += frames as u64,
                Given::Taken => self.count(frame, frames as u64, now),
            }
            index += frames;
        }
        held.release(index);
        to.flush()?;
        Ok(index)
    }

    fn count(&mut self, frame: Passing, frames: u64, now: Nanos) {
        let (counts, late) = (&mut self.counts, now.since(frame.at).0);
        counts.left_frames += frames;
        counts.corrupted_frames += u64::from(frame.marks.corrupted_bit.is_some());
        counts.marked_frames += u64::from(frame.marks.congestion);
        counts.late_frames += if late > LATE_NS { frames } else { 0 };
        counts.very_late_frames += if late > VERY_LATE_NS { frames } else { 0 };
        counts.latest_ns = counts.latest_ns.max(late);
    }

    fn send(
        &mut self,
        held: &Held,
        index: usize,
        frames: usize,
        to: &mut End,
    ) -> Result<(Given, Passing), PortError> {
        let (bytes, frame) = held.frame(index);
        let (segments, first) = (Segments::of(bytes), held.part(index));
        let count = u32::try_from(frames).unwrap_or(1);
        let payload = segments.run(bytes, first, count, &mut self.header);
        if frame.marks.corrupted_bit.is_none() && !frame.marks.congestion {
            return Ok((to.write(self.header.bytes(), payload)?, frame));
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(self.header.bytes());
        self.scratch.extend_from_slice(payload);
        if frame.marks.congestion {
            mark_congestion(&mut self.scratch[TAP_HEADER_BYTES..]);
        }
        if let Some(bit) = frame.marks.corrupted_bit {
            finish(&mut self.scratch);
            let place = TAP_HEADER_BYTES + bit as usize / 8;
            if let Some(byte) = self.scratch.get_mut(place) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Ok((to.write(&[], &self.scratch)?, frame))
    }
}

#[cfg(test)]
mod tests;
