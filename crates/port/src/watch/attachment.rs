//! The attachment of a watch program: by a TCX link where the kernel supports it (6.6), else as a clsact filter.

use std::io;

use iolab_sys::bpf::{Link, Place, Program};

use super::clsact::{Filter, EGRESS, INGRESS};
use crate::error::PortError;

/// The hook at which packets are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// On ingress: after XDP and GRO.
    Ingress,
    /// On egress: before the queueing discipline.
    Egress,
}

/// The attachment mechanism of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A TCX link, which ends with this process.
    Tcx,
    /// A clsact filter, which stays attached until it is removed.
    Clsact,
}

/// A program attached to an interface until drop.
#[derive(Debug)]
pub(super) enum Attachment {
    // The fields are only dropped, never read.
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

/// Whether the error means that the kernel does not support TCX links.
fn is_unknown(seen: &io::Error) -> bool {
    matches!(seen.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}
