//! Sending on a line that gap frames keep full: the line spaces the frames, and the clock only sees to it that it never runs dry.

use iolab_engine::{Decision, Generator, Nanos, Slices};
use iolab_port::{reserve, PortError};

use super::{Burst, Sender};

/// On a line that is kept full frames are handed over so long before their time; less than there is before the first one.
const AHEAD: Nanos = Nanos::from_micros(500);
/// So many frames and gap frames are handed over at once.
const FULL_BATCH: usize = 64;

impl Sender<'_> {
    /// The same on a line that is kept full: what is due soon is handed over now, with what belongs between, so that the line
    /// always has something to send. Buffers hold either kind, so each frame is written whole.
    pub(super) fn full_burst(
        &mut self,
        generator: &mut Generator,
        slices: &mut Slices,
        now: Nanos,
    ) -> Result<Burst, PortError> {
        let Some(filler) = &mut self.filler else { unreachable!("a line that is kept full") };
        let mut batch = reserve(self.port, FULL_BATCH);
        let (granted, mut used, mut taken) = (batch.granted(), 0, 0);
        let decision = loop {
            while let Some(bytes) = filler.next().filter(|_| used < granted) {
                filler.write(batch.frame(used, bytes));
                used += 1;
            }
            if used == granted {
                break Decision::Send;
            }
            let decision = generator.poll(now.plus(AHEAD));
            if decision != Decision::Send {
                break decision;
            }
            let plan = generator.take(now.plus(AHEAD));
            slices.note(plan.tx_time);
            let bytes = self.plan.contents.bytes(plan.size);
            let buffer = batch.frame(used, bytes);
            // As in `burst`, it cannot fail.
            let _ = self.plan.contents.emit(&plan, now.0, buffer);
            let frame_bytes = bytes + usize::from(iolab_frame::FCS_BYTES);
            filler.after(u32::try_from(frame_bytes).unwrap_or(u32::MAX));
            self.handed_bytes += frame_bytes as u64;
            (used, taken) = (used + 1, taken + 1);
        };
        if used > 0 {
            batch.commit(used);
            self.held += used;
            self.release()?;
        }
        let decision = match decision {
            Decision::Wait(until) => Decision::Wait(Nanos(until.since(AHEAD).0)),
            other => other,
        };
        Ok(Burst { decision, granted, taken })
    }
}
