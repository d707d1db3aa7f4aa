//! Detection of the ports that a process group has bound, from `/proc/PID/net` and `/proc/PID/fd`, without opening a
//! connection.

use std::fs;
use std::io::{self, ErrorKind};

use iolab_protocol::calls::ListenTransport;

use crate::kernel::procfs::{pids, stat};

/// Whether the group of process `pid` has bound `port` in the namespace of `pid`. If the sockets of a member
/// are unreadable, any bound socket in that namespace counts.
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
    // Reading the sockets of a whole group is slow, so it is done only if the port is bound, but not by the leader.
    !bound.is_empty() && (sockets_of(pid).is_ok_and(among) || group_sockets(pid).is_none_or(among))
}

/// Return the inodes of sockets that are bound to `port` (and listen, for TCP) in the text of a socket table
/// such as `proc_net_tcp`.
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

/// Return the open sockets of the group's members; `None` if the sockets of a member are unreadable.
fn group_sockets(group: u32) -> Option<Vec<u64>> {
    let mut sockets = Vec::new();
    for pid in pids().filter(|&pid| stat(pid).is_some_and(|seen| seen.group == group && !seen.ended)) {
        match sockets_of(pid) {
            Ok(open) => sockets.extend(open),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            // The process has exited in the meantime.
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
    fn listening_tcp_port_is_bound() {
        assert_eq!(bound_inodes(TCP, ListenTransport::Tcp, 0x1451), [8437]);
    }

    #[test]
    fn tcp_connection_is_not_a_listener() {
        assert_eq!(bound_inodes(TCP, ListenTransport::Tcp, 0x1452), [0; 0]);
    }

    #[test]
    fn udp_port_counts_as_bound_in_any_socket_state() {
        assert_eq!(bound_inodes(UDP6, ListenTransport::Udp, 0x1451), [9001]);
        assert_eq!(bound_inodes(UDP6, ListenTransport::Udp, 0x1450), [0; 0]);
    }

    #[test]
    fn empty_socket_table_has_no_bound_port() {
        assert_eq!(bound_inodes("", ListenTransport::Tcp, 1), [0; 0]);
    }
}
