//! A capture: the newest frames of an interface, in both directions, as a pcapng file. A capture neither consumes nor
//! delays frames.

mod ring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use iolab_port::{AfPacket, PacketRx, PcapngWriter, PortError, RxPort};
use iolab_protocol::capture::{
    CaptureFilter, CapturePart, CaptureRead, CaptureStart, CaptureStarted, Captured,
};
use iolab_protocol::{ErrorCode, ErrorObject};
use iolab_sys::clock::{self, RealtimeOffset};

use self::ring::{FrameRing, Kept};
use crate::faults::port_refused;
use crate::watch::{flow_key, text};

/// Limits of the ring size: the minimum has room for a long frame, the maximum bounds the agent's memory (bytes).
const LEAST_RING_BYTES: usize = 1 << 20;
const MOST_RING_BYTES: usize = 1 << 30;
/// Maximum capture length: a super-frame of the stack with two VLAN tags (bytes).
const MOST_SNAP_BYTES: u32 = 65_558;
/// Length of the longest headers that the filter reads: Ethernet with two tags, IPv6, ports (bytes).
const HEADER_BYTES: u32 = 96;
/// Maximum number of frames read in one batch.
const BATCH: usize = 1024;
/// Maximum wait for a block; the kernel retires a block after a millisecond at the latest (ms).
const WAIT_MS: i32 = 20;
/// Time to continue after the stop request, in which the kernel retires the last block (ns).
const LAST_NS: u64 = 5_000_000;
/// Maximum length of the file part in one reply, before base64: a multiple of three, so that parts join without
/// padding (bytes).
const PART_BYTES: usize = 3 << 20;

/// A running capture, or the file of a stopped capture; it ends on drop.
#[derive(Debug)]
pub struct RunningCapture {
    id: String,
    begin_ns: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Running { stop: Arc<AtomicBool>, thread: JoinHandle<Result<(Captured, Vec<u8>), String>> },
    Over(Captured, Vec<u8>),
    Failed(String),
}

/// The state of the capture thread.
#[derive(Debug)]
struct Work {
    rx: PacketRx,
    ring: FrameRing,
    filter: CaptureFilter,
    snap_bytes: usize,
    interface: String,
    counts: Captured,
}

/// Open the capture socket in the calling thread's namespace and start the capture.
///
/// # Errors
/// Returns an error object for the reply.
pub fn start_capture(params: &CaptureStart) -> Result<RunningCapture, ErrorObject> {
    if !(LEAST_RING_BYTES..=MOST_RING_BYTES).contains(&params.ring_bytes) {
        let message = format!("'ring_bytes' is {LEAST_RING_BYTES} to {MOST_RING_BYTES}");
        return Err(ErrorObject::params(message, params.ring_bytes));
    }
    if !(1..=MOST_SNAP_BYTES).contains(&params.snap_bytes) {
        return Err(ErrorObject::params(
            format!("'snap_bytes' is 1 to {MOST_SNAP_BYTES}"),
            params.snap_bytes,
        ));
    }
    let rx = AfPacket::look_both(&params.interface, params.snap_bytes.max(HEADER_BYTES))
        .map_err(|error| port_refused("capturing", &params.interface, &error))?;
    let begin_ns = clock::now_ns();
    let snap_bytes = params.snap_bytes as usize;
    let work = Work {
        rx,
        ring: FrameRing::new(params.ring_bytes, snap_bytes),
        filter: params.filter.clone(),
        snap_bytes,
        interface: params.interface.clone(),
        counts: Captured { begin_ns, ..Captured::default() },
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new().name("iolab-capture".to_owned());
    let thread = thread.spawn(move || work.run(&stopped)).map_err(|error| {
        ErrorObject::new(ErrorCode::Refused, format!("starting capture '{}': {error}", params.id))
    })?;
    Ok(RunningCapture { id: params.id.clone(), begin_ns, state: State::Running { stop, thread } })
}

impl RunningCapture {
    /// Return the reply to the start request.
    pub fn describe(&self) -> CaptureStarted {
        CaptureStarted { begin_ns: self.begin_ns }
    }

    /// Stop the capture and return the counts of its file; a repeated call returns the same counts.
    ///
    /// # Errors
    /// Fails if the capture has failed.
    pub fn stop(&mut self) -> Result<Captured, ErrorObject> {
        let state = std::mem::replace(&mut self.state, State::Failed("it was being stopped".to_owned()));
        self.state = match state {
            State::Running { stop, thread } => {
                // Release: pairs with the thread's Acquire; the flag publishes no other data.
                stop.store(true, Ordering::Release);
                match thread.join() {
                    Ok(Ok((counts, file))) => State::Over(counts, file),
                    Ok(Err(reason)) => State::Failed(reason),
                    Err(_) => State::Failed("it crashed".to_owned()),
                }
            }
            other => other,
        };
        self.file("stopping").map(|(counts, _)| counts.clone())
    }

    /// Return a part of the file.
    ///
    /// # Errors
    /// Fails if the capture is running, or has failed.
    pub fn read(&self, params: &CaptureRead) -> Result<CapturePart, ErrorObject> {
        let (_, file) = self.file("reading")?;
        let begin = params.offset_bytes.min(file.len());
        let end = (begin + PART_BYTES).min(file.len());
        Ok(CapturePart { packed: text(&file[begin..end]), total_bytes: file.len() })
    }

    fn file(&self, doing: &str) -> Result<(&Captured, &[u8]), ErrorObject> {
        let reason = match &self.state {
            State::Over(counts, file) => return Ok((counts, file)),
            State::Running { .. } => "it runs; stop it first",
            State::Failed(reason) => reason,
        };
        let message = format!("{doing} capture '{}': {reason}", self.id);
        Err(ErrorObject::new(ErrorCode::Refused, message))
    }
}

impl Drop for RunningCapture {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Work {
    fn run(mut self, stop: &AtomicBool) -> Result<(Captured, Vec<u8>), String> {
        let mut until_ns = u64::MAX;
        while clock::now_ns() < until_ns {
            // Acquire: pairs with the Release in `stop`.
            if until_ns == u64::MAX && stop.load(Ordering::Acquire) {
                self.counts.end_ns = clock::now_ns();
                until_ns = self.counts.end_ns + LAST_NS;
            }
            if self.take().map_err(|error| error.to_string())? == 0 {
                let wait_ms = if until_ns == u64::MAX { WAIT_MS } else { 1 };
                self.rx.wait(wait_ms).map_err(|error| error.to_string())?;
            }
        }
        self.counts.lost_frames = self.rx.stats().map_err(|error| error.to_string())?.dropped_frames;
        self.write().map_err(|error| format!("writing the file: {error}"))
    }

    fn take(&mut self) -> Result<usize, PortError> {
        let count = self.rx.poll(BATCH)?;
        for index in 0..count {
            let seen = self.rx.seen(index);
            if self.counts.end_ns > 0 && seen.stamp_ns > self.counts.end_ns {
                continue;
            }
            if !passes(&self.filter, seen.bytes) {
                self.counts.filtered_frames += 1;
                continue;
            }
            let bytes = &seen.bytes[..seen.bytes.len().min(self.snap_bytes)];
            self.ring.keep(Kept {
                bytes,
                whole_bytes: seen.whole_bytes,
                way: seen.way,
                stamp_ns: seen.stamp_ns,
            });
        }
        Ok(count)
    }

    fn write(mut self) -> std::io::Result<(Captured, Vec<u8>)> {
        let mut writer = PcapngWriter::new(Vec::new(), &self.interface, RealtimeOffset::measure())?;
        for frame in by_time(&self.ring) {
            self.counts.cut_frames += u64::from(frame.bytes.len() < frame.whole_bytes);
            writer.write_beginning(frame.way, frame.bytes, frame.whole_bytes, frame.stamp_ns)?;
        }
        let (file, kept_frames) = writer.finish()?;
        let overwritten_frames = self.ring.overwritten();
        Ok((Captured { kept_frames, overwritten_frames, total_bytes: file.len(), ..self.counts }, file))
    }
}

/// Return the frames of a ring sorted by timestamp, the order on the line. A late CPU handles several frames at once,
/// and the kernel then delivers frames without a protocol handler (such as PAUSE) to a capture after the following
/// frame. Timestamps are taken earlier, in the device layer.
fn by_time(ring: &FrameRing) -> Vec<Kept<'_>> {
    let mut frames: Vec<_> = ring.frames().collect();
    frames.sort_by_key(|frame| frame.stamp_ns);
    frames
}

/// Whether the filter keeps a frame.
fn passes(filter: &CaptureFilter, bytes: &[u8]) -> bool {
    let CaptureFilter { protocol, addresses, port } = filter;
    if protocol.is_none() && addresses.is_empty() && port.is_none() {
        return true;
    }
    let key = flow_key(bytes);
    // A non-IP frame has neither addresses nor a protocol.
    let is_ip = !key.source.is_unspecified() || !key.destination.is_unspecified();
    is_ip
        && protocol.is_none_or(|one| one == key.protocol)
        && (addresses.is_empty() || addresses.iter().any(|&one| one == key.source || one == key.destination))
        && port.is_none_or(|one| one == key.source_port || one == key.destination_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(source_port: u16) -> Vec<u8> {
        let mut bytes = [&[2; 12][..], &[8, 0, 0x45], &[0; 8], &[17, 0, 0]].concat();
        bytes.splice(23.., [17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        bytes.extend(source_port.to_be_bytes());
        bytes.extend([0, 53, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn captured_frames_are_written_in_line_order() {
        let mut ring = FrameRing::new(1 << 16, 64);
        for (letter, stamp_ns) in [(1, 10), (4, 30), (2, 20), (3, 20)] {
            ring.keep(Kept { bytes: &[letter; 60], whole_bytes: 60, way: iolab_port::Way::In, stamp_ns });
        }
        let letters: Vec<_> = by_time(&ring).iter().map(|frame| frame.bytes[0]).collect();
        assert_eq!(letters, [1, 2, 3, 4]);
    }

    #[test]
    fn filter_keeps_frames_that_match_all_conditions() {
        let frame = udp(4000);
        let read = |text: &str| serde_json::from_str::<CaptureFilter>(text).unwrap();
        for (text, kept) in [
            ("{}", true),
            (r#"{"protocol":17}"#, true),
            (r#"{"protocol":6}"#, false),
            (r#"{"addresses":["198.18.0.2"]}"#, true),
            (r#"{"addresses":["198.18.0.3"]}"#, false),
            (r#"{"protocol":17,"port":4000}"#, true),
            (r#"{"port":53}"#, true),
            (r#"{"port":54}"#, false),
        ] {
            assert_eq!(passes(&read(text), &frame), kept, "{text}");
        }
        assert!(
            passes(&read("{}"), &[0; 60]) && !passes(&read(r#"{"protocol":0}"#), &[0; 60]),
            "ARP is not IP"
        );
    }
}
