//! An end of a wire: a tap, or a veth pair where every frame comes apart.

use std::os::fd::RawFd;

use crate::error::PortError;
use crate::tap::{Given, TapFrame, TapPort};
use crate::veth::VethPort;

/// What frames come from and go to. Each has the header of a tap before it.
#[derive(Debug)]
pub enum End {
    /// One call of the kernel for each frame, and super-frames whole.
    Tap(TapPort),
    /// Rings that are shared with the kernel.
    Veth(Box<VethPort>),
}

impl End {
    /// Take a frame that left the interface; none when no more came.
    ///
    /// # Errors
    /// When the interface has gone.
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> Result<Option<TapFrame>, PortError> {
        match self {
            Self::Tap(tap) => tap.read(room),
            Self::Veth(veth) => veth.read(room),
        }
    }

    /// Whether it holds frames that do not end a wait for some.
    pub fn has_more(&self) -> bool {
        matches!(self, Self::Veth(veth) if veth.has_more())
    }

    /// So many frames are about to be written, and then flushed.
    pub fn expect(&mut self, frames: usize) {
        if let Self::Veth(veth) = self {
            veth.expect(frames);
        }
    }

    /// Let a frame arrive at the interface: its header, and what stands behind that. At the next flush at the latest.
    ///
    /// # Errors
    /// When the interface has gone.
    #[inline]
    pub fn write(&mut self, header: &[u8], rest: &[u8]) -> Result<Given, PortError> {
        match self {
            Self::Tap(tap) => tap.write(header, rest),
            Self::Veth(veth) => veth.write(header, rest),
        }
    }

    /// See that what was written arrives.
    ///
    /// # Errors
    /// When the interface has gone.
    #[inline]
    pub fn flush(&mut self) -> Result<(), PortError> {
        match self {
            Self::Tap(_) => Ok(()),
            Self::Veth(veth) => veth.flush(),
        }
    }

    /// Frames that were taken and that the interface did not take in the end, since it was made.
    ///
    /// # Errors
    /// When it has gone.
    pub fn refused_frames(&self) -> Result<u64, PortError> {
        match self {
            Self::Tap(_) => Ok(0),
            Self::Veth(veth) => veth.refused_frames(),
        }
    }

    /// Frames that left the interface as it counts and were lost before they could be read, since it was made.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn unread_frames(&mut self) -> Result<u64, PortError> {
        match self {
            Self::Tap(_) => Ok(0), // the interface counts them as dropped
            Self::Veth(veth) => veth.unread_frames(),
        }
    }

    /// Whether super-frames of UDP come whole.
    pub const fn udp_super_frames(&self) -> bool {
        matches!(self, Self::Tap(tap) if tap.udp_super_frames)
    }

    /// Why the kernel does not stamp frames as they come; none: it does.
    pub fn unstamped(&self) -> Option<String> {
        match self {
            Self::Tap(tap) => tap.unstamped(),
            Self::Veth(_) => None,
        }
    }

    /// What carries the frames, in words.
    pub fn path(&self) -> String {
        match self {
            Self::Tap(_) => "tap".to_owned(),
            Self::Veth(veth) => veth.path(),
        }
    }

    /// To wait for frames.
    pub fn fd(&self) -> RawFd {
        match self {
            Self::Tap(tap) => tap.fd(),
            Self::Veth(veth) => veth.fd(),
        }
    }
}
