//! Attachment of a program to the network stack's hook of an interface: by a TCX link where the kernel supports it
//! (6.6), else as a clsact filter.

pub(crate) mod clsact;
pub(crate) mod packet;

use std::io;

use iolab_sys::bpf::{Link, Place, Program};

use self::clsact::{Filter, EGRESS, INGRESS};
use crate::error::PortError;

/// Result of a program that leaves a packet to later programs: `TCX_NEXT` and `TC_ACT_UNSPEC`.
pub(crate) const NEXT: i32 = -1;

/// The hook at which a program sees packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// On ingress: after XDP and GRO.
    Ingress,
    /// On egress: before the queueing discipline.
    Egress,
}

/// The attachment mechanism of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A TCX link, which ends with this process.
    Tcx,
    /// A clsact filter, which stays attached until it is removed.
    Clsact,
}

/// The order of a program among the programs of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Before the programs that are attached already.
    First,
    /// After the programs that are attached already.
    Last,
}

/// A program attached to an interface until drop.
#[derive(Debug)]
pub(crate) enum Attachment {
    // The fields are only dropped, never read.
    Link(#[allow(dead_code)] Link),
    Filter(#[allow(dead_code)] Filter),
}

impl Attachment {
    /// Attach a program to the interface with this index in the calling thread's namespace; without a mechanism, by the
    /// best mechanism that the kernel supports.
    pub(crate) fn new(
        program: &Program,
        index: u32,
        hook: Hook,
        order: Order,
        mechanism: Option<Mechanism>,
    ) -> Result<Self, PortError> {
        const BEFORE: u32 = 1 << 3; // BPF_F_BEFORE
        let (place, parent) = match hook {
            Hook::Ingress => (Place::StackIn, INGRESS),
            Hook::Egress => (Place::StackOut, EGRESS),
        };
        // Both come before other filters, which still process the packet.
        let preference = if order == Order::First { 1 } else { 2 };
        if mechanism == Some(Mechanism::Clsact) {
            return Filter::new(program, index, parent, preference).map(Self::Filter);
        }
        match Link::new(program, index, place, if order == Order::First { BEFORE } else { 0 }) {
            Ok(link) => Ok(Self::Link(link)),
            Err(errno) if is_unknown(&errno) && mechanism.is_none() => {
                Filter::new(program, index, parent, preference).map(Self::Filter)
            }
            Err(errno) => Err(PortError::of("attaching a program to an interface", "bpf")(errno)),
        }
    }

    pub(crate) const fn mechanism(&self) -> Mechanism {
        match self {
            Self::Link(_) => Mechanism::Tcx,
            Self::Filter(_) => Mechanism::Clsact,
        }
    }
}

/// Whether the error means that the kernel does not support TCX links.
fn is_unknown(errno: &io::Error) -> bool {
    matches!(errno.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}
