//! A TAP device as one end of an emulated link: super-frames are read and written without segmentation, each with a
//! `virtio_net_hdr`.

mod arrivals;

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use iolab_sys::bpf::BpfError;
use iolab_sys::tap::{self, TapKind, Unfinished};

use self::arrivals::{Arrivals, STAMPS};
use crate::error::PortError;

const _: () = assert!(STAMPS == QUEUE_FRAMES as usize, "a stamp for each frame that may wait");

/// Queue length of the TAP device: with the kernel's default of 500, TCP at 10 Gbit/s or more loses thousands of
/// segments a second when the reader waits for a CPU (frames).
const QUEUE_FRAMES: u16 = 16_384;

/// Length of struct `virtio_net_hdr`, before each frame (bytes).
pub(crate) const TAP_HEADER_BYTES: usize = 10;

/// A TAP interface, removed on drop.
#[derive(Debug)]
pub struct TapPort {
    file: File,
    /// Whether UDP super-frames are read without segmentation; otherwise the kernel segments them.
    pub udp_super_frames: bool,
    arrivals: Result<Arrivals, BpfError>,
    /// The interface that gets written frames, if it is a different one.
    written: Option<File>,
}

/// A frame that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapFrame {
    /// Length with the `virtio_net_hdr` (bytes).
    pub length: usize,
    /// Arrival time from the kernel's stamp; none without a stamp (ns).
    pub came_ns: Option<u64>,
}

/// The result of writing a frame to a TAP device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The stack has accepted the frame.
    Taken,
    /// The frame was refused, because the interface is down or the frame is invalid; do not retry.
    Refused,
    /// The kernel is out of buffers; retry later.
    Busy,
}

impl TapPort {
    /// Create the interface `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// Fails if the name exists, the kernel has no TAP support, or a permission is missing.
    pub fn open(name: &str, what: Unfinished) -> Result<Self, PortError> {
        let kind = TapKind { vnet_header: true, multi_queue: false, never_waits: true };
        let doing = "making a tap";
        let file: File = tap::open_tap(name, kind).map_err(PortError::of(doing, "TUNSETIFF"))?.into();
        let refused = |call| PortError::of(doing, call);
        tap::unlimited_writes(file.as_fd()).map_err(refused("TUNSETSNDBUF"))?;
        let udp_super_frames = tap::take_unfinished(file.as_fd(), what).map_err(refused("TUNSETOFFLOAD"))?;
        match tap::set_queue_frames(name, QUEUE_FRAMES) {
            // An unprivileged user can set the queue length by netlink only; the code that brings the interface up
            // does this.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            done => done.map_err(refused("SIOCSIFTXQLEN"))?,
        }
        let arrivals = Arrivals::of(file.as_fd());
        Ok(Self { file, udp_super_frames, arrivals, written: None })
    }

    /// Deliver frames that are written from now on to the interface of `other`.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    pub fn write_to(&mut self, other: &Self) -> Result<(), PortError> {
        let file = other.file.try_clone().map_err(PortError::of("making a tap", "dup"))?;
        self.written = Some(file);
        Ok(())
    }

    /// Read a frame that the interface sent, preceded by its `virtio_net_hdr`; return none if no frame is queued.
    ///
    /// # Errors
    /// Fails if the interface is gone.
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

    /// Return the reason why the kernel does not stamp arriving frames; none if the kernel stamps them.
    pub fn unstamped(&self) -> Option<String> {
        self.arrivals.as_ref().err().map(ToString::to_string)
    }

    /// Deliver a frame to the interface, from `header` and `rest`.
    ///
    /// # Errors
    /// Fails if the interface is gone.
    pub fn write(&mut self, header: &[u8], rest: &[u8]) -> Result<Given, PortError> {
        let mut file = self.written.as_ref().unwrap_or(&self.file);
        let written = if header.is_empty() {
            file.write(rest)
        } else {
            file.write_vectored(&[IoSlice::new(header), IoSlice::new(rest)])
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

    /// Return the file descriptor on which to wait for frames.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn is_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
