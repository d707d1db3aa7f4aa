//! A tap as an end of a wire: whole super-frames go in and come out, each with the header that says what it stands for.

mod arrivals;

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use iolab_sys::bpf::BpfError;
use iolab_sys::tap::{self, TapKind, Unfinished};

use self::arrivals::{Arrivals, STAMPS};
use crate::error::PortError;

const _: () = assert!(STAMPS == QUEUE_FRAMES as usize, "a stamp for each frame that may wait");

/// At the kernel's default of 500, TCP at 10 Gbit/s and more loses thousands of segments a second to a reader that waits
/// for a CPU (frames).
const QUEUE_FRAMES: u16 = 16_384;

/// struct `virtio_net_hdr`, before each frame (bytes).
pub(crate) const TAP_HEADER_BYTES: usize = 10;

/// A tap interface, gone when dropped.
#[derive(Debug)]
pub struct TapPort {
    file: File,
    /// Whether super-frames of UDP come whole; the kernel cuts them up otherwise.
    pub udp_super_frames: bool,
    arrivals: Result<Arrivals, BpfError>,
}

/// A frame that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapFrame {
    /// With the header before it (bytes).
    pub length: usize,
    /// When it came, by the kernel's stamp; none: it gave none (ns).
    pub came_ns: Option<u64>,
}

/// What became of a frame that was given to a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The stack has it.
    Taken,
    /// The interface is down, or the frame is none: not to be tried again.
    Refused,
    /// Not now.
    Busy,
}

impl TapPort {
    /// Make the interface `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// When there is one of that name, the kernel has no taps, or a right is missing.
    pub fn open(name: &str, what: Unfinished) -> Result<Self, PortError> {
        let kind = TapKind { vnet_header: true, multi_queue: false, never_waits: true };
        let doing = "making a tap";
        let file: File = tap::open_tap(name, kind).map_err(PortError::of(doing, "TUNSETIFF"))?.into();
        let refused = |call| PortError::of(doing, call);
        tap::unlimited_writes(file.as_fd()).map_err(refused("TUNSETSNDBUF"))?;
        let udp_super_frames = tap::take_unfinished(file.as_fd(), what).map_err(refused("TUNSETOFFLOAD"))?;
        match tap::set_queue_frames(name, QUEUE_FRAMES) {
            // The kernel lets an ordinary user do this by netlink alone: who brings the interface up does it there.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            done => done.map_err(refused("SIOCSIFTXQLEN"))?,
        }
        let arrivals = Arrivals::of(file.as_fd());
        Ok(Self { file, udp_super_frames, arrivals })
    }

    /// Take a frame that left the interface, its header before it; none when no more came.
    ///
    /// # Errors
    /// When the interface has gone.
    pub fn read(&mut self, room: &mut [u8]) -> Result<Option<TapFrame>, PortError> {
        let arrivals = self.arrivals.as_mut().ok();
        match self.file.read(room) {
            Ok(length) => {
                let frame_bytes = length.saturating_sub(TAP_HEADER_BYTES);
                Ok(Some(TapFrame { length, came_ns: arrivals.and_then(|stamps| stamps.next(frame_bytes)) }))
            }
            Err(error) if is_empty(&error) => {
                arrivals.into_iter().for_each(Arrivals::all_read);
                Ok(None)
            }
            Err(error) => Err(PortError::of("reading a tap", "read")(error)),
        }
    }

    /// Why the kernel does not stamp frames as they come; none: it does.
    pub fn unstamped(&self) -> Option<String> {
        self.arrivals.as_ref().err().map(ToString::to_string)
    }

    /// Let a frame arrive at the interface: its header, and what stands behind that.
    ///
    /// # Errors
    /// When the interface has gone.
    pub fn write(&mut self, header: &[u8], rest: &[u8]) -> Result<Given, PortError> {
        let written = if header.is_empty() {
            self.file.write(rest)
        } else {
            self.file.write_vectored(&[IoSlice::new(header), IoSlice::new(rest)])
        };
        match written {
            Ok(_) => Ok(Given::Taken),
            Err(error) => match error.raw_os_error() {
                Some(libc::EIO | libc::EINVAL | libc::ENETDOWN) => Ok(Given::Refused),
                Some(libc::EAGAIN | libc::EINTR | libc::ENOMEM | libc::ENOBUFS) => Ok(Given::Busy),
                _ => Err(PortError::of("writing a tap", "write")(error)),
            },
        }
    }

    /// To wait for frames.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn is_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
