//! Counters of the qdiscs of a network namespace, from the kernel through rtnetlink.

pub(crate) mod message;

use iolab_protocol::observations::QdiscCounters;

use crate::links::Link;
use crate::netlink::{Channel, Dump};
use crate::SampleError;

/// Read the counters of all qdiscs of `links` through an rtnetlink channel.
///
/// # Errors
/// Returns an error if the kernel refuses or its answer cannot be parsed.
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
    fn qdiscs_of_the_running_kernel_are_parsed() {
        let mut route = Channel::new(SockProtocol::NetlinkRoute);
        let links = links::read(&mut route).unwrap();
        let first = read(&mut route, &links).unwrap();
        assert_eq!(read(&mut route, &links).unwrap().len(), first.len());
    }
}
