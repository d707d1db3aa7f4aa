//! Counters of the queueing disciplines in the calling thread's namespace, asked from the kernel over rtnetlink.

mod message;

use iolab_protocol::observations::QdiscCounts;
use nix::sys::socket::SockProtocol;

use crate::netlink::Dump;
use crate::{links, SampleError};

/// Read the counters of every queueing discipline.
///
/// # Errors
/// When the kernel refuses or its answer cannot be understood.
pub fn read() -> Result<Vec<QdiscCounts>, SampleError> {
    let mut qdiscs = Vec::new();
    let dump = Dump {
        doing: "asking the kernel for its qdiscs",
        protocol: SockProtocol::NetlinkRoute,
        kind: message::RTM_GETQDISC,
        body: &[0; message::TCMSG_BYTES],
    };
    dump.run(|kind, body| {
        if kind == message::RTM_NEWQDISC {
            qdiscs.push(message::parse(body)?);
        }
        Ok(())
    })?;
    let names = links::read()?.into_iter().map(|link| (link.index, link.name)).collect();
    Ok(qdiscs.into_iter().filter_map(|qdisc| qdisc.named(&names)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_is_understood() {
        read().unwrap();
    }
}
