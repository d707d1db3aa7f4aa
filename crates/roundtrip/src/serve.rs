//! The end that answers requests. Each thread waits for the next request independently, so a server with
//! several connections can use several CPUs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use crate::request::{Protocol, Serve};
use crate::RoundTripError;

/// Serve requests until this process is killed.
pub fn serve(asked: &Serve, ready: &dyn Fn()) -> Result<(), RoundTripError> {
    asked.check()?;
    let at = SocketAddr::new(asked.address, asked.port);
    let failed = |source| RoundTripError::system(format!("listening at {at}"), source);
    let rounds: Box<dyn Fn() -> Result<(), RoundTripError> + Sync> = if asked.protocol == Protocol::Tcp {
        let listener = TcpListener::bind(at).map_err(failed)?;
        Box::new(move || streams(&listener, asked))
    } else {
        let socket = UdpSocket::bind(at).map_err(failed)?;
        Box::new(move || datagrams(&socket, asked))
    };
    ready();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..asked.threads).map(|_| scope.spawn(&*rounds)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}

/// Serve connections sequentially.
fn streams(listener: &TcpListener, asked: &Serve) -> Result<(), RoundTripError> {
    loop {
        match listener.accept() {
            // Ignore errors of a client's connection: the client reports them.
            Ok((stream, _)) => drop(stream_to_its_end(stream, asked)),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(RoundTripError::system("waiting for a connection", error)),
        }
    }
}

fn stream_to_its_end(mut stream: TcpStream, asked: &Serve) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = vec![0; asked.request_bytes as usize];
    let response = vec![0; asked.response_bytes as usize];
    loop {
        stream.read_exact(&mut request)?;
        stream.write_all(&response)?;
    }
}

/// Answer each datagram with a response that starts with the header of the datagram.
fn datagrams(socket: &UdpSocket, asked: &Serve) -> Result<(), RoundTripError> {
    let mut buffer = vec![0; MOST_DATAGRAM];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            // A previous response reached a closed port; the kernel reports this as an error of the next
            // call.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(RoundTripError::system("waiting for a datagram", error)),
        };
        let answered = if asked.response_bytes == 0 { length } else { asked.response_bytes as usize };
        // A response that cannot be sent counts as lost in transit.
        let _ = socket.send_to(&buffer[..answered], from);
    }
}

const MOST_DATAGRAM: usize = 1 << 16;
