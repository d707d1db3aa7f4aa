//! Where a watch hangs: on a link of its own where the kernel has these (6.6), else as a filter of clsact.

use std::io;

use iolab_sys::bpf::{Link, Place, Program};

use super::clsact::{Filter, EGRESS, INGRESS};
use crate::error::PortError;

/// On which side of the stack packets are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// as they come in: after XDP, and after packets were joined (GRO)
    Ingress,
    /// as they leave: before they are queued and shaped
    Egress,
}

/// By what the kernel runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// a link, which ends with this process
    Tcx,
    /// a filter of clsact, which stays until somebody takes it off
    Clsact,
}

/// A program on an interface, until dropped.
#[derive(Debug)]
pub(super) enum Attachment {
    // Nothing reads them: what they hold goes when they are dropped.
    Link(#[allow(dead_code)] Link),
    Filter(#[allow(dead_code)] Filter),
}

impl Attachment {
    pub(super) fn new(program: &Program, index: u32, hook: Hook) -> Result<Self, PortError> {
        let (place, parent) = match hook {
            Hook::Ingress => (Place::StackIn, INGRESS),
            Hook::Egress => (Place::StackOut, EGRESS),
        };
        match Link::new(program, index, place, 0) {
            Ok(link) => Ok(Self::Link(link)),
            Err(seen) if is_unknown(&seen) => Filter::new(program, index, parent).map(Self::Filter),
            Err(seen) => Err(PortError::of("watching an interface", "bpf")(seen)),
        }
    }

    pub(super) const fn mechanism(&self) -> Mechanism {
        match self {
            Self::Link(_) => Mechanism::Tcx,
            Self::Filter(_) => Mechanism::Clsact,
        }
    }
}

/// What kernels answer that have no such links.
fn is_unknown(seen: &io::Error) -> bool {
    matches!(seen.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}
