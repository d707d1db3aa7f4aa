//! Checks whether the server behind a disk responds: by the state of its process, or with the first message
//! of its protocol on a new connection (iSCSI: RFC 7143 login; NVMe/TCP: `ICReq` of the TCP transport
//! specification; NBD: the handshake of its protocol document; QMP: the greeting). The check neither reads
//! nor writes the disk, and it does not affect existing sessions.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::request::{Peer, Ping};

/// State of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The process runs, or the server responded according to its protocol.
    Answers,
    /// The process is stopped, for example by SIGSTOP or a debugger.
    Stopped,
    /// The process has exited.
    Gone,
    /// The port is closed, or the address is unreachable.
    Refused,
    /// No complete response arrived before the timeout.
    Silent,
    /// The response does not conform to the protocol.
    Foreign,
}

/// Result of the check of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// State of the server.
    pub condition: Condition,
    /// Process ID, if the request names a process and its PID file contains an ID.
    pub pid: Option<u32>,
}

/// Check whether the server responds.
pub(crate) fn ask(asked: &Ping) -> Answer {
    let limit = Duration::from_millis(asked.timeout_ms.max(1));
    let answered = match &asked.peer {
        Peer::Process { pid_file, mark } => return process(pid_file, mark),
        Peer::Iscsi { address } => over_tcp(*address, limit, &login(), 48, |got| got[0] & 0x3f == 0x23),
        Peer::NvmeTcp { address } => over_tcp(*address, limit, &connection_request(), 8, |got| got[0] == 1),
        Peer::Nbd { address } => over_tcp(*address, limit, &[], 16, |got| got == b"NBDMAGICIHAVEOPT"),
        Peer::Qmp { socket } => UnixStream::connect(socket).and_then(|stream| {
            stream.set_read_timeout(Some(limit))?;
            exchanged(stream, &[], 7, |got| got == b"{\"QMP\":")
        }),
    };
    let condition = match answered {
        Ok(true) => Condition::Answers,
        Ok(false) => Condition::Foreign,
        Err(error) if SILENT.contains(&error.kind()) => Condition::Silent,
        Err(_) => Condition::Refused,
    };
    Answer { condition, pid: None }
}

/// Check the process of a PID file. `mark` is a word of the server's command line or environment, so that a different
/// process which reuses the process ID is not mistaken for the server.
fn process(pid_file: &Path, mark: &str) -> Answer {
    let gone = |pid| Answer { condition: Condition::Gone, pid };
    let Some(pid) = fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok()) else {
        return gone(None);
    };
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let has_mark = |name| read(name).split(|&byte| byte == 0).any(|word| word == mark.as_bytes());
    let stat = String::from_utf8_lossy(&read("stat")).into_owned();
    // The third field of proc_pid_stat(5), which is the state; the process name before it may contain
    // parentheses.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    match state {
        None | Some('Z' | 'X') => gone(Some(pid)),
        Some(_) if !has_mark("cmdline") && !has_mark("environ") => gone(Some(pid)),
        Some('T' | 't') => Answer { condition: Condition::Stopped, pid: Some(pid) },
        Some(_) => Answer { condition: Condition::Answers, pid: Some(pid) },
    }
}

fn over_tcp(
    address: SocketAddr,
    limit: Duration,
    request: &[u8],
    length: usize,
    is_right: impl Fn(&[u8]) -> bool,
) -> io::Result<bool> {
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    exchanged(stream, request, length, is_right)
}

/// Send a request, and return whether the first `length` bytes of the response are valid.
fn exchanged(
    mut stream: impl Read + Write,
    request: &[u8],
    length: usize,
    is_right: impl Fn(&[u8]) -> bool,
) -> io::Result<bool> {
    stream.write_all(request)?;
    let mut got = vec![0; length];
    stream.read_exact(&mut got)?;
    Ok(is_right(&got))
}

/// Build a login request for a discovery session (RFC 7143, 11.12).
fn login() -> Vec<u8> {
    let mut text =
        b"InitiatorName=iqn.2026-01.net.iolab:ping\0SessionType=Discovery\0AuthMethod=None\0".to_vec();
    let length = text.len();
    text.resize(length.next_multiple_of(4), 0);
    let mut header = [0_u8; 48];
    // An immediate login request that transits from security negotiation to the next stage.
    header[0] = 0x43;
    header[1] = 0x81;
    header[5..8].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_be_bytes()[1..]);
    // Initiator session ID of the random format; a constant suffices, because only one session exists at a
    // time.
    header[8] = 0x80;
    header[16..20].copy_from_slice(&1_u32.to_be_bytes());
    [header.to_vec(), text].concat()
}

/// Build an `ICReq` PDU: version 1.0, no digests, 128 bytes.
fn connection_request() -> Vec<u8> {
    let mut request = vec![0_u8; 128];
    request[2] = 128;
    request[4] = 128;
    request
}

/// I/O errors that a check returns if the server hangs or exits during the check.
const SILENT: [ErrorKind; 6] = [
    ErrorKind::TimedOut,
    ErrorKind::WouldBlock,
    ErrorKind::UnexpectedEof,
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionAborted,
    ErrorKind::BrokenPipe,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test that cannot go on must fail

    use std::net::TcpListener;
    use std::process::{Child, Command};
    use std::thread;

    use super::*;

    fn asked(peer: Peer) -> Condition {
        ask(&Ping { peer, timeout_ms: 200 }).condition
    }

    /// Start a server for one connection, which reads `reads` bytes of a request and then sends `words`.
    fn server(words: &'static [u8], reads: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut vec![0; reads]).unwrap();
            stream.write_all(words).unwrap();
        });
        address
    }

    #[test]
    fn matching_server_answers_and_a_server_of_a_different_protocol_is_reported() {
        let response: &[u8] = &[0x23; 48];
        assert_eq!(asked(Peer::Iscsi { address: server(response, 48) }), Condition::Answers);
        assert_eq!(asked(Peer::Iscsi { address: server(&[0x3f; 48], 48) }), Condition::Foreign);
        assert_eq!(asked(Peer::NvmeTcp { address: server(&[1; 128], 128) }), Condition::Answers);
        assert_eq!(asked(Peer::NvmeTcp { address: server(&[3; 128], 128) }), Condition::Foreign);
        assert_eq!(asked(Peer::Nbd { address: server(b"NBDMAGICIHAVEOPT\0\x03", 0) }), Condition::Answers);
        assert_eq!(asked(Peer::Nbd { address: server(b"220 mail.example ESMTP", 0) }), Condition::Foreign);
    }

    #[test]
    fn silent_server_and_closed_port_are_distinguished() {
        // The kernel completes connections of a stopped process: only a reply shows that it is alive.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for peer in [Peer::Iscsi { address }, Peer::NvmeTcp { address }, Peer::Nbd { address }] {
            assert_eq!(asked(peer), Condition::Silent);
        }
        drop(listener);
        assert_eq!(asked(Peer::Nbd { address }), Condition::Refused);
        assert_eq!(asked(Peer::Qmp { socket: "/run/no such socket".into() }), Condition::Refused);
    }

    fn sleeper(folder: &Path) -> (Child, Peer) {
        let child = Command::new("sleep").arg("53").env("MARK", "ours").spawn().unwrap();
        let pid_file = folder.join("pid");
        fs::write(&pid_file, format!("{}\n", child.id())).unwrap();
        (child, Peer::Process { pid_file, mark: "MARK=ours".to_owned() })
    }

    /// Wait until the condition is `condition`: a signal takes effect a moment after it was sent, and a program starts
    /// a moment after its process.
    fn becomes(peer: &Peer, condition: Condition) {
        for _ in 0..2_000 {
            if asked(peer.clone()) == condition {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it is {:?}", asked(peer.clone()));
    }

    #[test]
    fn process_is_running_stopped_or_gone_and_a_recycled_pid_counts_as_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, peer) = sleeper(folder.path());
        let signal = |name: &str| {
            assert!(Command::new("kill")
                .args([name.to_owned(), child.id().to_string()])
                .status()
                .unwrap()
                .success());
        };
        becomes(&peer, Condition::Answers);
        let Peer::Process { pid_file, .. } = &peer else { unreachable!() };
        let other = Peer::Process { pid_file: pid_file.clone(), mark: "MARK=another".to_owned() };
        assert_eq!(asked(other), Condition::Gone);
        signal("-STOP");
        becomes(&peer, Condition::Stopped);
        // A zombie has exited, although its process ID is still in use.
        child.kill().unwrap();
        becomes(&peer, Condition::Gone);
        child.wait().unwrap();
        fs::remove_file(folder.path().join("pid")).unwrap();
        assert_eq!(asked(peer), Condition::Gone);
    }
}
