//! Interfaces of the calling thread's namespace as reported by rtnetlink: names, MTU and carrier changes.

use crate::netlink::{for_each_attribute, u32_at, wrong, Announcements, Channel, Dump};
use crate::SampleError;

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Index of the interface.
    pub index: u32,
    /// Name of the interface.
    pub name: String,
    /// Number of carrier changes; `None` if the kernel does not count them.
    pub carrier_changes: Option<u64>,
    /// MTU: size of the largest packet without the Ethernet header, in bytes.
    pub mtu: u32,
}

/// Return a socket for announcements of added, removed and changed interfaces, including carrier changes.
pub fn announcements() -> Announcements {
    Announcements::new(RTMGRP_LINK)
}

/// Read all interfaces through an rtnetlink channel.
///
/// # Errors
/// Returns an error if the kernel refuses or its answer cannot be parsed.
pub fn read(route: &mut Channel) -> Result<Vec<Link>, SampleError> {
    let mut links = Vec::new();
    let dump = Dump { doing: "asking the kernel for the interfaces", kind: RTM_GETLINK, body: &request() };
    route.dump(&dump, |kind, body| {
        if kind == RTM_NEWLINK {
            links.push(parse(body)?);
        }
        Ok(())
    })?;
    Ok(links)
}

/// Build the body of the request: an empty `ifinfomsg` and a filter that omits statistics.
fn request() -> Vec<u8> {
    let mut body = vec![0; IFINFOMSG_BYTES];
    body.extend(8_u16.to_ne_bytes());
    body.extend(IFLA_EXT_MASK.to_ne_bytes());
    body.extend(RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    body
}

fn parse(body: &[u8]) -> Result<Link, SampleError> {
    let attributes = body.get(IFINFOMSG_BYTES..).ok_or_else(|| wrong("an ifinfomsg", body))?;
    let mut link = Link { index: u32_at(body, 4)?, ..Link::default() };
    for_each_attribute(attributes, |kind, value| {
        match kind {
            IFLA_IFNAME => String::from_utf8_lossy(value).trim_end_matches('\0').clone_into(&mut link.name),
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_CARRIER_CHANGES => link.carrier_changes = Some(u32_at(value, 0)?.into()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(link)
}

// linux/rtnetlink.h, linux/if_link.h
const RTMGRP_LINK: u32 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFINFOMSG_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_CARRIER_CHANGES: u16 = 35;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

#[cfg(test)]
mod tests {
    use nix::sys::socket::SockProtocol;

    use super::*;

    #[test]
    fn links_of_the_running_kernel_are_parsed() {
        let mut route = Channel::new(SockProtocol::NetlinkRoute);
        assert!(read(&mut route).unwrap().iter().any(|link| link.name == "lo" && link.index == 1));
    }

    #[test]
    fn link_name_and_carrier_changes_are_found_among_other_attributes() {
        let mut body = vec![0; IFINFOMSG_BYTES];
        body[4] = 7;
        body.extend([8, 0, 99, 0, 1, 2, 3, 4]);
        body.extend([9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0]);
        body.extend([8, 0, 35, 0, 2, 0, 0, 0]);
        let link = Link { index: 7, name: "eth0".to_owned(), carrier_changes: Some(2), mtu: 0 };
        assert_eq!(parse(&body).unwrap(), link);
        assert!(parse(&[0; 3]).is_err());
    }
}
