//! State of each established TCP connection in a namespace, from the kernel through `sock_diag`: the
//! `struct tcp_info` and the memory of its socket.

pub(crate) mod message;

use iolab_protocol::observations::SocketCounters;
use nix::errno::Errno;

use crate::netlink::{Channel, Dump};
use crate::SampleError;

/// Read all established TCP connections through a `sock_diag` channel. A kernel without `tcp_diag` reports no
/// connection.
///
/// # Errors
/// Returns an error if the kernel refuses or its answer cannot be parsed.
pub fn read(diag: &mut Channel) -> Result<Vec<SocketCounters>, SampleError> {
    let mut sockets = Vec::new();
    for family in message::FAMILIES {
        match dump(diag, family, &mut sockets) {
            Err(SampleError::Netlink { errno: Errno::ENOENT | Errno::EPROTONOSUPPORT, .. }) => {}
            other => other?,
        }
    }
    Ok(sockets)
}

fn dump(diag: &mut Channel, family: u8, sockets: &mut Vec<SocketCounters>) -> Result<(), SampleError> {
    let dump = Dump {
        doing: "asking the kernel for its TCP connections",
        kind: message::SOCK_DIAG_BY_FAMILY,
        body: &message::request(family),
    };
    diag.dump(&dump, |_, body| {
        sockets.extend(message::parse(body)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::SockProtocol;

    use super::*;

    #[test]
    fn connection_of_the_running_kernel_is_found_with_its_sent_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(&[0; 1000]).unwrap();
        let sockets = read(&mut Channel::new(SockProtocol::NetlinkSockDiag)).unwrap();
        // A kernel without tcp_diag reports no connection.
        if let Some(one) = sockets.iter().find(|socket| socket.remote_port == port) {
            assert_eq!(one.local_port, client.local_addr().unwrap().port());
            assert_eq!(one.sent_bytes, 1000);
            assert!(one.send_buffer_bytes > 0);
        }
    }
}
