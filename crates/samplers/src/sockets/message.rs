//! The `sock_diag` dump: its request, and a parser of the connections in its answer, without I/O.

use iolab_protocol::observations::SocketCounters;

use crate::netlink::{array_at, for_each_attribute, u32_at, u64_at, wrong};
use crate::SampleError;

/// Address families: IPv4 and IPv6.
pub const FAMILIES: [u8; 2] = [2, 10];

/// Build the request for all established TCP connections of an address family: an `inet_diag_req_v2`.
pub fn request(family: u8) -> Vec<u8> {
    let wanted = (1 << (INET_DIAG_INFO - 1)) | (1 << (INET_DIAG_CONG - 1)) | (1 << (INET_DIAG_SKMEMINFO - 1));
    let mut body = vec![family, IPPROTO_TCP, wanted, 0];
    body.extend(ESTABLISHED.to_ne_bytes());
    body.extend([0; SOCKID_BYTES]);
    body
}

/// Parse the connection in the body of a message; `None` if the kernel reports no TCP information.
///
/// # Errors
/// Returns an error if the body cannot be parsed.
pub fn parse(body: &[u8]) -> Result<Option<SocketCounters>, SampleError> {
    let attributes = body.get(INET_DIAG_MSG_BYTES..).ok_or_else(|| wrong("an inet_diag_msg", body))?;
    let (mut info, mut memory, mut congestion) = (None, None, String::new());
    for_each_attribute(attributes, |kind, value| {
        match u8::try_from(kind).unwrap_or_default() {
            INET_DIAG_INFO => info = Some(value.to_vec()),
            INET_DIAG_SKMEMINFO => memory = Some(value.to_vec()),
            INET_DIAG_CONG => {
                String::from_utf8_lossy(value).trim_end_matches('\0').clone_into(&mut congestion);
            }
            _ => {}
        }
        Ok(())
    })?;
    let Some(info) = info.filter(|info| info.len() >= LEAST_INFO_BYTES) else { return Ok(None) };
    // Fields that an older kernel lacks are 0, and so is the socket memory if the kernel omits it.
    let part = |at: usize| u64_at(&info, at).unwrap_or_default();
    let memory = memory.unwrap_or_default();
    let limit = |at: usize| u64::from(u32_at(&memory, at).unwrap_or_default());
    Ok(Some(SocketCounters {
        local_port: u16::from_be_bytes(array_at(body, 4)?),
        remote_port: u16::from_be_bytes(array_at(body, 6)?),
        congestion,
        rtt_ns: u64::from(u32_at(&info, 68)?) * 1000,
        least_rtt_ns: u64::from(u32_at(&info, 148)?) * 1000,
        window_bytes: u64::from(u32_at(&info, 80)?) * u64::from(u32_at(&info, 16)?),
        in_flight_bytes: in_flight(&info)?,
        busy_ns: part(168) * 1000,
        receiver_limited_ns: part(176) * 1000,
        buffer_limited_ns: part(184) * 1000,
        sent_bytes: part(200),
        resent_bytes: part(208),
        receiver_window_bytes: u64::from(u32_at(&info, 228).unwrap_or_default()),
        receive_buffer_bytes: limit(4),
        send_buffer_bytes: limit(12),
        dropped: limit(32),
    }))
}

/// Return the bytes in flight as the kernel counts them (`tcp_packets_in_flight`): segments sent and not
/// acknowledged, minus `SACKed` and lost segments, plus retransmitted segments, multiplied by the MSS.
fn in_flight(info: &[u8]) -> Result<u64, SampleError> {
    let segments = |at: usize| u32_at(info, at).map(u64::from);
    let gone = segments(28)? + segments(32)?;
    Ok((segments(24)? + segments(36)?).saturating_sub(gone) * segments(16)?)
}

const IPPROTO_TCP: u8 = 6;
/// `1 << TCP_ESTABLISHED`
const ESTABLISHED: u32 = 1 << 1;
// linux/sock_diag.h, linux/inet_diag.h; the offsets in `struct tcp_info` are those of linux/tcp.h
/// Message type of the request.
pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCKID_BYTES: usize = 48;
const INET_DIAG_MSG_BYTES: usize = 4 + SOCKID_BYTES + 20;
const INET_DIAG_INFO: u8 = 2;
const INET_DIAG_CONG: u8 = 4;
const INET_DIAG_SKMEMINFO: u8 = 7;
/// Minimum length of `tcp_info` in bytes: up to `tcpi_sndbuf_limited`, which exists since Linux 4.10.
const LEAST_INFO_BYTES: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + value.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(u16::from(kind).to_ne_bytes());
        bytes.extend(value);
        bytes
    }

    #[test]
    fn tcp_connection_has_its_times_and_windows() {
        let mut body = vec![0; INET_DIAG_MSG_BYTES];
        body[4..8].copy_from_slice(&[0x14, 0x51, 0x80, 0]);
        let mut info = vec![0; 232];
        info[16..20].copy_from_slice(&1448_u32.to_ne_bytes());
        for (at, segments) in [(24, 12_u32), (28, 3), (32, 2), (36, 1)] {
            info[at..at + 4].copy_from_slice(&segments.to_ne_bytes());
        }
        info[68..72].copy_from_slice(&250_u32.to_ne_bytes());
        info[80..84].copy_from_slice(&10_u32.to_ne_bytes());
        info[168..176].copy_from_slice(&9_u64.to_ne_bytes());
        info[176..184].copy_from_slice(&7_u64.to_ne_bytes());
        body.extend(attribute(INET_DIAG_INFO, &info));
        body.extend(attribute(INET_DIAG_CONG, b"cubic\0\0\0"));
        let socket = parse(&body).unwrap().unwrap();
        assert_eq!((socket.local_port, socket.remote_port), (5201, 0x8000));
        assert_eq!((socket.rtt_ns, socket.window_bytes), (250_000, 14_480));
        assert_eq!(socket.in_flight_bytes, 8 * 1448);
        assert_eq!((socket.busy_ns, socket.receiver_limited_ns), (9_000, 7_000));
        assert_eq!(socket.congestion, "cubic");
    }

    #[test]
    fn kernel_with_short_tcp_info_gives_no_connection() {
        let mut body = vec![0; INET_DIAG_MSG_BYTES];
        body.extend(attribute(INET_DIAG_INFO, &[0; 104]));
        assert_eq!(parse(&body).unwrap(), None);
        assert!(parse(&[0; 10]).is_err());
    }
}
