//! Counters of the queueing disciplines of a namespace, asked from the kernel over rtnetlink.

pub(crate) mod message;

use iolab_protocol::observations::QdiscCounters;

use crate::links::Link;
use crate::netlink::{Channel, Dump};
use crate::SampleError;

/// Read the counters of every queueing discipline of `links` over a channel of rtnetlink.
///
/// # Errors
/// When the kernel refuses or its answer cannot be understood.
pub fn read(route: &mut Channel, links: &[Link]) -> Result<Vec<QdiscCounters>, SampleError> {
    let mut qdiscs = Vec::new();
    let dump = Dump {
        doing: "asking the kernel for its qdiscs",
        kind: message::RTM_GETQDISC,
        body: &[0; message::TCMSG_BYTES],
    };
    route.dump(&dump, |kind, body| {
        if kind == message::RTM_NEWQDISC {
            qdiscs.push(message::parse(body)?);
        }
        Ok(())
    })?;
    Ok(qdiscs.into_iter().filter_map(|qdisc| qdisc.named(links)).collect())
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::SockProtocol;

    use super::*;
    use crate::links;

    #[test]
    fn this_kernel_is_understood() {
        let mut route = Channel::new(SockProtocol::NetlinkRoute);
        let links = links::read(&mut route).unwrap();
        let first = read(&mut route, &links).unwrap();
        assert_eq!(read(&mut route, &links).unwrap().len(), first.len());
    }
}
