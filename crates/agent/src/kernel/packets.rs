//! Messages between processes of this program: each packet of a Unix socket contains one JSON text and at
//! most one open file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{
    recvmsg, sendmsg, socketpair, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::Serialize;

/// Create a connected pair of sockets that preserves packet boundaries.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Set the receive timeout of a socket.
pub fn limit_waiting(socket: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    Ok(set_socket_timeout(socket, Timeout::Recv, Some(limit))?)
}

/// Send `message`, with `file` attached.
pub fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = file.into_iter().collect();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Wait for the next packet and its file; `None` if the other end is closed.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut text = [0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().next();
    if got.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&text[..got.bytes])?, file)))
}

/// Maximum length of a message in bytes; longer messages are truncated and fail to parse.
const MOST_BYTES: usize = 4096;
