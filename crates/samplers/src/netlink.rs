//! Netlink dumps: a channel that stays open, one request, datagrams of messages, and their attributes.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    bind, recv, send, socket, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType,
};

use crate::SampleError;

/// A dump request.
pub struct Dump<'a> {
    /// Name of the operation, for error messages.
    pub doing: &'static str,
    /// Message type of the request.
    pub kind: u16,
    /// Body of the request, without the netlink header.
    pub body: &'a [u8],
}

/// A netlink socket for one protocol. The socket belongs to the network namespace of its first use.
#[derive(Debug)]
pub struct Channel {
    protocol: SockProtocol,
    socket: Option<OwnedFd>,
    buffer: Vec<u8>,
}

impl Channel {
    /// Create a channel, without opening its socket.
    pub fn new(protocol: SockProtocol) -> Self {
        Self { protocol, socket: None, buffer: Vec::new() }
    }

    /// Send a dump request, and call `take` with the type and body of each message of the answer.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses or its answer cannot be parsed. The next request then opens a
    /// new socket, because the rest of this answer may still arrive.
    pub fn dump(
        &mut self,
        dump: &Dump<'_>,
        mut take: impl FnMut(u16, &[u8]) -> Result<(), SampleError>,
    ) -> Result<(), SampleError> {
        let refused = |errno| SampleError::Netlink { doing: dump.doing, errno };
        let open = || socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, self.protocol);
        let channel = self.socket.take().map_or_else(open, Ok).map_err(refused)?;
        self.buffer.resize(DATAGRAM_BYTES, 0);
        send(channel.as_raw_fd(), &request(dump.kind, dump.body), MsgFlags::empty()).map_err(refused)?;
        loop {
            let length = recv(channel.as_raw_fd(), &mut self.buffer, MsgFlags::empty()).map_err(refused)?;
            if parse(dump.doing, &self.buffer[..length], &mut take)? == Progress::Done {
                self.socket = Some(channel);
                return Ok(());
            }
        }
    }
}

/// A socket on which rtnetlink announces changes of one kind.
#[derive(Debug)]
pub struct Announcements {
    groups: u32,
    socket: Option<OwnedFd>,
}

impl Announcements {
    /// Create a subscription to multicast groups. The subscription starts with the first call of [`Self::changed`].
    pub fn new(groups: u32) -> Self {
        Self { groups, socket: None }
    }

    /// Whether something may have changed since the last call: a change was announced, or announcements may
    /// be missing.
    pub fn changed(&mut self) -> bool {
        let Some(socket) = &self.socket else {
            self.socket = self.subscribe().ok();
            return true;
        };
        let mut first = [0];
        let mut changed = false;
        loop {
            match recv(socket.as_raw_fd(), &mut first, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EAGAIN) => return changed,
                // On ENOBUFS, the kernel dropped announcements because there were too many.
                Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => changed = true,
                Err(_) => {
                    self.socket = None;
                    return true;
                }
            }
        }
    }

    fn subscribe(&self) -> nix::Result<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let opened = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(opened.as_raw_fd(), &NetlinkAddr::new(0, self.groups))?;
        Ok(opened)
    }
}

/// Whether more datagrams follow.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The dump continues.
    More,
    /// The dump is complete.
    Done,
}

/// Call `take` with the type and body of each message in a datagram.
///
/// # Errors
/// Returns an error if the kernel refused the request or the datagram cannot be parsed.
pub fn parse(
    doing: &'static str,
    datagram: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Result<(), SampleError>,
) -> Result<Progress, SampleError> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let body = rest.get(HEADER_BYTES..length).ok_or_else(|| wrong("a whole message", rest))?;
        match kind {
            NLMSG_DONE => return Ok(Progress::Done),
            NLMSG_ERROR => {
                let errno =
                    nix::errno::Errno::from_raw(i32::from_ne_bytes(array_at(body, 0)?).wrapping_neg());
                return Err(SampleError::Netlink { doing, errno });
            }
            _ => take(kind, body)?,
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(Progress::More)
}

/// Call `take` with the type and value of each attribute.
///
/// # Errors
/// Returns an error if an attribute is truncated or `take` fails.
pub fn for_each_attribute(
    attributes: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Result<(), SampleError>,
) -> Result<(), SampleError> {
    let mut rest = attributes;
    while rest.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16_at(rest, 0)?);
        let value =
            rest.get(ATTRIBUTE_HEADER_BYTES..length).ok_or_else(|| wrong("a whole attribute", rest))?;
        take(u16_at(rest, 2)? & ATTRIBUTE_KIND_MASK, value)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(())
}

/// Return `N` bytes at an offset.
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], SampleError> {
    let part = bytes.get(at..at + N).and_then(|part| part.try_into().ok());
    part.ok_or_else(|| wrong("more bytes", bytes))
}

/// Return the 16-bit number at an offset.
pub fn u16_at(bytes: &[u8], at: usize) -> Result<u16, SampleError> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

/// Return the 32-bit number at an offset.
pub fn u32_at(bytes: &[u8], at: usize) -> Result<u32, SampleError> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

/// Return the 64-bit number at an offset.
pub fn u64_at(bytes: &[u8], at: usize) -> Result<u64, SampleError> {
    array_at(bytes, at).map(u64::from_ne_bytes)
}

/// Create an error for bytes of the kernel that cannot be parsed, with the expected content.
pub fn wrong(expected: &'static str, seen: &[u8]) -> SampleError {
    let shown = format!("{:02x?}", &seen[..seen.len().min(16)]);
    SampleError::format("the kernel's answer over netlink", expected, shown)
}

fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend(length.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.extend([0; 8]); // sequence and port: only one request is in flight
    request.extend(body);
    request
}

fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// Maximum size of one datagram of a dump, as in the kernel's `netlink_dump`.
const DATAGRAM_BYTES: usize = 32 * 1024;
// linux/netlink.h
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;
const NLMSG_ERROR: u16 = 0x2;
const NLMSG_DONE: u16 = 0x3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlink_messages_are_read_until_the_end_marker() {
        let mut datagram = request(7, &[1, 2, 3, 4]);
        datagram.extend(request(NLMSG_DONE, &[]));
        let mut seen = Vec::new();
        let progress = parse("x", &datagram, |kind, body| {
            seen.push((kind, body.to_vec()));
            Ok(())
        });
        assert_eq!(progress.unwrap(), Progress::Done);
        assert_eq!(seen, [(7, vec![1, 2, 3, 4])]);
    }

    #[test]
    fn netlink_error_has_its_reason_and_a_truncated_message_is_refused() {
        let refusal = request(NLMSG_ERROR, &(-2_i32).to_ne_bytes());
        let said = parse("asking", &refusal, |_, _| Ok(())).unwrap_err();
        assert_eq!(said.errno(), Some(2));
        assert!(parse("x", &refusal[..17], |_, _| Ok(())).is_err());
    }
}
