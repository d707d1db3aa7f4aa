//! Recordings that the controller uploads in pieces, for replay by the trials of a port set.

use std::sync::{Arc, Mutex};

use iolab_frame::Recording;
use iolab_protocol::traffic::{TrafficRecord, TrafficRecorded};
use iolab_protocol::ErrorObject;

use crate::contents::Recordings;
use crate::faults::bad_params;
use crate::headers::bytes_of;
use crate::ports::lock;

/// Maximum length of one piece, and of all recordings of a port set (bytes).
const MOST_PIECE_BYTES: usize = 1 << 20;
const MOST_BYTES: usize = 256 << 20;
const MOST_RECORDINGS: usize = 16;

/// The recordings of a port set.
#[derive(Debug, Default)]
pub struct Library(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    whole: Recordings,
    /// Name and received bytes of the incomplete recording.
    coming: Option<(String, Vec<u8>)>,
    bytes: usize,
}

impl Library {
    /// Return the complete recordings.
    pub fn whole(&self) -> Recordings {
        lock(&self.0).whole.clone()
    }

    /// Add a piece.
    ///
    /// # Errors
    /// Returns an error object for the reply, if pieces are out of order, the size limit is exceeded, or frames are
    /// invalid; the incomplete recording is discarded.
    pub fn take(&self, piece: &TrafficRecord) -> Result<TrafficRecorded, ErrorObject> {
        let mut shelves = lock(&self.0);
        let (name, mut bytes) = match shelves.coming.take() {
            _ if piece.first => (piece.recording.clone(), Vec::new()),
            Some((name, bytes)) if name == piece.recording => (name, bytes),
            _ => {
                let message = "pieces of a recording come one after the other, the first with 'first'";
                return Err(ErrorObject::params(message, piece.recording.as_str()));
            }
        };
        let more = bytes_of(&piece.hex, MOST_PIECE_BYTES).ok_or_else(|| {
            let message = format!("'hex' is 1 to {MOST_PIECE_BYTES} pairs of hexadecimal digits");
            ErrorObject::params(message, piece.hex.len())
        })?;
        bytes.extend_from_slice(&more);
        if shelves.bytes + bytes.len() > MOST_BYTES || shelves.whole.len() == MOST_RECORDINGS {
            let message =
                format!("a set has at most {MOST_RECORDINGS} recordings of {MOST_BYTES} bytes together");
            return Err(ErrorObject::params(message, shelves.bytes + bytes.len()));
        }
        let mut answer =
            TrafficRecorded { bytes: bytes.len() as u64, frames: 0, unstamped_frames: 0, flows: 0 };
        if !piece.last {
            shelves.coming = Some((name, bytes));
            return Ok(answer);
        }
        let count = bytes.len();
        let recording = Recording::new(bytes.into()).map_err(|error| bad_params("hex", &error))?;
        answer.frames = recording.times_ns().len() as u64;
        answer.unstamped_frames = recording.unstamped_frames();
        answer.flows = recording.flow_count();
        shelves.bytes += count;
        shelves.whole.insert(name, Arc::new(recording));
        Ok(answer)
    }
}
