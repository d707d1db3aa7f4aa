//! Whether a port is bound in a process's namespace, from its `/proc/PID/net`. Nothing is connected to.

use std::fs;

use iolab_protocol::calls::Transport;

/// Whether `port` is bound in the namespace of process `pid`.
pub fn is_bound(pid: u32, transport: Transport, port: u16) -> bool {
    let tables = match transport {
        Transport::Tcp => ["tcp", "tcp6"],
        Transport::Udp => ["udp", "udp6"],
    };
    tables.iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        table_has(&text, transport, port)
    })
}

/// Whether the text of a socket table, as in proc_net_tcp, has `port` bound (and listening, for TCP).
fn table_has(text: &str, transport: Transport, port: u16) -> bool {
    text.lines().skip(1).any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        let bound = local.and_then(|local| u16::from_str_radix(local.rsplit(':').next()?, 16).ok());
        bound == Some(port) && (transport == Transport::Udp || state == Some(TCP_LISTEN))
    })
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
        "  sl  local_address                         remote_address                        st tx_queue
  12: 00000000000000000000000000000000:1451 00000000000000000000000000000000:0000 07 00000000:00000000
";

    #[test]
    fn a_listening_tcp_port_is_bound() {
        assert!(table_has(TCP, Transport::Tcp, 0x1451));
    }

    #[test]
    fn a_connection_is_not_a_listener() {
        assert!(!table_has(TCP, Transport::Tcp, 0x1452));
    }

    #[test]
    fn a_bound_udp_port_counts_whatever_its_state() {
        assert!(table_has(UDP6, Transport::Udp, 0x1451));
        assert!(!table_has(UDP6, Transport::Udp, 0x1450));
    }

    #[test]
    fn nothing_is_bound_in_an_empty_table() {
        assert!(!table_has("", Transport::Tcp, 1));
    }
}
