//! One end of an emulated link: a TAP device, or a veth pair for links without super-frames.

use std::os::fd::RawFd;

use crate::error::PortError;
use crate::tap::{Given, TapFrame, TapPort};
use crate::veth::VethPort;

/// The device at one end of an emulated link. Each frame is preceded by a `virtio_net_hdr`.
#[derive(Debug)]
pub enum End {
    /// A TAP device: one system call per frame, super-frames are not segmented.
    Tap(TapPort),
    /// A veth pair with rings shared with the kernel.
    Veth(Box<VethPort>),
}

impl End {
    /// Read a frame that the interface sent; return none if no frame is queued.
    ///
    /// # Errors
    /// Fails if the interface is gone.
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> Result<Option<TapFrame>, PortError> {
        match self {
            Self::Tap(tap) => tap.read(room),
            Self::Veth(veth) => veth.read(room),
        }
    }

    /// Whether frames are buffered that `poll` on the file descriptor does not report.
    pub fn has_more(&self) -> bool {
        matches!(self, Self::Veth(veth) if veth.has_more())
    }

    /// Announce that `frames` frames will be written before the next flush.
    pub fn expect(&mut self, frames: usize) {
        if let Self::Veth(veth) = self {
            veth.expect(frames);
        }
    }

    /// Deliver a frame to the interface, from `header` and `rest`, at the next flush at the latest.
    ///
    /// # Errors
    /// Fails if the interface is gone.
    #[inline]
    pub fn write(&mut self, header: &[u8], rest: &[u8]) -> Result<Given, PortError> {
        match self {
            Self::Tap(tap) => tap.write(header, rest),
            Self::Veth(veth) => veth.write(header, rest),
        }
    }

    /// Deliver all written frames.
    ///
    /// # Errors
    /// Fails if the interface is gone.
    #[inline]
    pub fn flush(&mut self) -> Result<(), PortError> {
        match self {
            Self::Tap(_) => Ok(()),
            Self::Veth(veth) => veth.flush(),
        }
    }

    /// Return the number of written frames that the interface finally refused since it was created.
    ///
    /// # Errors
    /// Fails if the interface is gone.
    pub fn refused_frames(&self) -> Result<u64, PortError> {
        match self {
            Self::Tap(_) => Ok(0),
            Self::Veth(veth) => veth.refused_frames(),
        }
    }

    /// Return the number of frames that the interface counted as sent but that were lost before they could be read,
    /// since the interface was created.
    ///
    /// # Errors
    /// Fails if the kernel does not return its counters.
    pub fn unread_frames(&mut self) -> Result<u64, PortError> {
        match self {
            Self::Tap(_) => Ok(0), // the interface counts unread frames as dropped
            Self::Veth(veth) => veth.unread_frames(),
        }
    }

    /// Whether UDP super-frames are read without segmentation.
    pub const fn udp_super_frames(&self) -> bool {
        matches!(self, Self::Tap(tap) if tap.udp_super_frames)
    }

    /// Return the reason why the kernel does not stamp arriving frames; none if the kernel stamps them.
    pub fn unstamped(&self) -> Option<String> {
        match self {
            Self::Tap(tap) => tap.unstamped(),
            Self::Veth(_) => None,
        }
    }

    /// Return a description of the path of the frames.
    pub fn path(&self) -> String {
        match self {
            Self::Tap(_) => "tap".to_owned(),
            Self::Veth(veth) => veth.path(),
        }
    }

    /// Return the file descriptor on which to wait for frames.
    pub fn fd(&self) -> RawFd {
        match self {
            Self::Tap(tap) => tap.fd(),
            Self::Veth(veth) => veth.fd(),
        }
    }
}
