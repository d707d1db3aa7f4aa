//! Route netlink requests about links, queueing disciplines and filters, in the namespace of the calling thread.

use std::os::fd::OwnedFd;

/// Length of struct nlmsghdr (bytes).
pub(crate) const HEADER: usize = 16;

/// A netlink request with its attributes.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// Create a request with the fixed structure of its message type.
    pub(crate) fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        let flags = u16::try_from(libc::NLM_F_REQUEST | flags).unwrap_or_default();
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(body);
        Self(bytes)
    }

    /// Create the content of a nested attribute, which may start with a structure.
    pub(crate) fn inner(body: &[u8]) -> Self {
        Self(body.to_vec())
    }

    /// Return all bytes of the request.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Append an attribute.
    #[allow(clippy::cast_possible_truncation)] // requests have less than a hundred bytes
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Send the request and return the reply.
    #[allow(clippy::cast_possible_truncation)] // as above
    pub(crate) fn exchange(mut self, socket: &OwnedFd) -> std::io::Result<Vec<u8>> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        iolab_sys::socket::send(socket, &self.0)?;
        let mut reply = vec![0; 32768];
        let bytes = iolab_sys::socket::receive(socket, &mut reply)?;
        reply.truncate(bytes);
        let kind = iolab_sys::read_head::<u16>(reply.get(4..).unwrap_or_default()).map_or(0, i32::from);
        if kind == libc::NLMSG_ERROR {
            let code =
                iolab_sys::read_head::<i32>(reply.get(HEADER..).unwrap_or_default()).unwrap_or(-libc::EIO);
            if code != 0 {
                return Err(std::io::Error::from_raw_os_error(-code));
            }
        }
        Ok(reply)
    }

    /// Send the request for a list and return its messages, each without its header.
    #[allow(clippy::cast_possible_truncation)] // as above
    pub(crate) fn dump(mut self, socket: &OwnedFd) -> std::io::Result<Vec<Vec<u8>>> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        iolab_sys::socket::send(socket, &self.0)?;
        let (mut found, mut reply) = (Vec::new(), vec![0; 32768]);
        loop {
            let bytes = iolab_sys::socket::receive(socket, &mut reply)?;
            let mut rest = &reply[..bytes];
            while let Some(length) = iolab_sys::read_head::<u32>(rest).map(|length| length as usize) {
                let kind =
                    iolab_sys::read_head::<u16>(rest.get(4..).unwrap_or_default()).map_or(0, i32::from);
                let Some(body) = rest.get(HEADER..length) else {
                    return Err(std::io::ErrorKind::InvalidData.into());
                };
                match kind {
                    libc::NLMSG_DONE => return Ok(found),
                    libc::NLMSG_ERROR => {
                        let code = iolab_sys::read_head::<i32>(body).unwrap_or(-libc::EIO);
                        return Err(std::io::Error::from_raw_os_error(-code));
                    }
                    _ => found.push(body.to_vec()),
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// Open a netlink socket for the calling thread's namespace, usable from any namespace.
pub(crate) fn route_socket() -> std::io::Result<OwnedFd> {
    iolab_sys::socket::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
}
