//! Sending on a line that gap frames keep full: the line spaces the frames, and the clock only ensures that the line
//! is never idle.

use iolab_engine::{Decision, Generator, Nanos, Slices};
use iolab_port::{reserve, PortError};

use super::{Burst, Sender};

/// Time by which frames are sent before they are due on a full line; less than the lead time of the first frame.
const AHEAD: Nanos = Nanos::from_micros(500);
/// Maximum number of frames and gap frames sent at once.
const FULL_BATCH: usize = 64;

impl Sender<'_> {
    /// Send the frames due soon and the gap frames between them on a full line, so that the line is never idle. A
    /// buffer may contain either kind, so each frame is written completely.
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
            // Writing a frame cannot fail, for the reasons stated in `burst`.
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
