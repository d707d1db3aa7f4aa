//! Whether a process's group has bound a port, from `/proc/PID/net` and `/proc/PID/fd`. Nothing is connected to.

use std::fs;
use std::io::{self, ErrorKind};

use iolab_protocol::calls::ListenTransport;

use crate::kernel::procfs::{pids, stat};

/// Whether the group of process `pid` has `port` bound in the namespace of `pid`. Where the sockets of a member cannot be seen,
/// anybody's in that namespace counts.
pub fn is_bound(pid: u32, transport: ListenTransport, port: u16) -> bool {
    let tables = match transport {
        ListenTransport::Tcp => ["tcp", "tcp6"],
        ListenTransport::Udp => ["udp", "udp6"],
    };
    let bound: Vec<u64> = tables
        .iter()
        .flat_map(|table| {
            let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            bound_inodes(&text, transport, port)
        })
        .collect();
    let among = |sockets: Vec<u64>| bound.iter().any(|inode| sockets.contains(inode));
    // Looking at a whole group takes time: it is done only when there is something to find that is not the leader's own.
    !bound.is_empty() && (sockets_of(pid).is_ok_and(among) || group_sockets(pid).is_none_or(among))
}

/// The sockets that have `port` bound (and listen, for TCP) in the text of a socket table, as in `proc_net_tcp`.
fn bound_inodes(text: &str, transport: ListenTransport, port: u16) -> Vec<u64> {
    let bound = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let local = u16::from_str_radix(words.get(1)?.rsplit(':').next()?, 16).ok()?;
        let counts =
            local == port && (transport == ListenTransport::Udp || words.get(3) == Some(&TCP_LISTEN));
        counts.then(|| words.get(9)?.parse().ok())?
    };
    text.lines().skip(1).filter_map(bound).collect()
}

/// The sockets that members of the group have open; `None` where one of them cannot be looked at.
fn group_sockets(group: u32) -> Option<Vec<u64>> {
    let mut sockets = Vec::new();
    for pid in pids().filter(|&pid| stat(pid).is_some_and(|seen| seen.group == group && !seen.ended)) {
        match sockets_of(pid) {
            Ok(open) => sockets.extend(open),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            // It ended meanwhile.
            Err(_) => {}
        }
    }
    Some(sockets)
}

fn sockets_of(pid: u32) -> io::Result<Vec<u64>> {
    let inode = |descriptor: fs::DirEntry| {
        let target = fs::read_link(descriptor.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().filter_map(inode).collect())
}

const TCP_LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 8437 1 0 100 0 0 10 0
   1: 0100007F:1452 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 8438 1 0 20 4 30 10 -1
";
    const UDP6: &str =
        "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  12: 00000000000000000000000000000000:1451 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9001 2 0 0
";

    #[test]
    fn a_listening_tcp_port_is_bound() {
        assert_eq!(bound_inodes(TCP, ListenTransport::Tcp, 0x1451), [8437]);
    }

    #[test]
    fn a_connection_is_not_a_listener() {
        assert_eq!(bound_inodes(TCP, ListenTransport::Tcp, 0x1452), [0; 0]);
    }

    #[test]
    fn a_bound_udp_port_counts_whatever_its_state() {
        assert_eq!(bound_inodes(UDP6, ListenTransport::Udp, 0x1451), [9001]);
        assert_eq!(bound_inodes(UDP6, ListenTransport::Udp, 0x1450), [0; 0]);
    }

    #[test]
    fn nothing_is_bound_in_an_empty_table() {
        assert_eq!(bound_inodes("", ListenTransport::Tcp, 1), [0; 0]);
    }
}
