//! The end that answers. Threads wait for the next request each by itself: a server of several connections takes as many
//! CPUs as it can have.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use crate::request::{Protocol, Serve};
use crate::RoundTripError;

/// Serve until this process is ended.
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

/// Serve connections, one after the other.
fn streams(listener: &TcpListener, asked: &Serve) -> Result<(), RoundTripError> {
    loop {
        match listener.accept() {
            // Of a client that is gone nothing is to be said: it says so itself.
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

/// Answer datagrams: the head of each comes back.
fn datagrams(socket: &UdpSocket, asked: &Serve) -> Result<(), RoundTripError> {
    let mut buffer = vec![0; MOST_DATAGRAM];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            // An answer that nobody took comes back as an error of the next call.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(RoundTripError::system("waiting for a datagram", error)),
        };
        let answered = if asked.response_bytes == 0 { length } else { asked.response_bytes as usize };
        // One that cannot be sent is lost, as on the way.
        let _ = socket.send_to(&buffer[..answered], from);
    }
}

const MOST_DATAGRAM: usize = 1 << 16;
