//! Counters of the network interfaces of a namespace, from `/proc/net/dev`; their carrier changes come from
//! rtnetlink.

use iolab_protocol::observations::InterfaceCounters;

use crate::kernel_file::KernelFile;
use crate::links::Link;
use crate::SampleError;

/// Return the file `/proc/net/dev` of the calling thread's namespace, not yet open.
pub fn file() -> KernelFile {
    KernelFile::new("/proc/thread-self/net/dev")
}

/// Read the counters of all interfaces; `links` are the interfaces as reported by rtnetlink.
///
/// # Errors
/// Returns an error if the file cannot be read or parsed.
pub fn read(file: &mut KernelFile, links: &[Link]) -> Result<Vec<InterfaceCounters>, SampleError> {
    let mut interfaces = parse(&file.read()?)?;
    join(&mut interfaces, links);
    Ok(interfaces)
}

fn join(interfaces: &mut [InterfaceCounters], links: &[Link]) {
    for interface in interfaces {
        let own = links.iter().find(|link| link.name == interface.name);
        interface.carrier_changes = own.and_then(|link| link.carrier_changes);
    }
}

/// Parse the counters in the text of `/proc/net/dev`.
///
/// # Errors
/// Returns an error if a line is not a name with its counters.
pub fn parse(text: &str) -> Result<Vec<InterfaceCounters>, SampleError> {
    text.lines().skip(HEADER_LINES).map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<InterfaceCounters, SampleError> {
    let wrong = || SampleError::format("/proc/net/dev", "a name and sixteen counters", line);
    let (name, counters) = line.rsplit_once(':').ok_or_else(wrong)?;
    let counters = counters.split_ascii_whitespace().map(|word| word.parse().map_err(|_| wrong()));
    let counters = counters.collect::<Result<Vec<u64>, _>>()?;
    let [rx_bytes, rx_packets, rx_errors, rx_dropped, _, _, _, _, tx_bytes, tx_packets, tx_errors, tx_dropped, ..] =
        counters[..]
    else {
        return Err(wrong());
    };
    Ok(InterfaceCounters {
        name: name.trim().to_owned(),
        rx_bytes,
        rx_packets,
        rx_errors,
        rx_dropped,
        tx_bytes,
        tx_packets,
        tx_errors,
        tx_dropped,
        carrier_changes: None,
    })
}

const HEADER_LINES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
eth0.10: 1000 10 1 2 3 4 5 6 2000 20 7 8 9 10 11 12
";

    #[test]
    fn each_interface_has_its_counters() {
        let interfaces = parse(RECORDED).unwrap();
        assert_eq!(interfaces[0].name, "lo");
        let vlan = InterfaceCounters {
            name: "eth0.10".to_owned(),
            rx_bytes: 1000,
            rx_packets: 10,
            rx_errors: 1,
            rx_dropped: 2,
            tx_bytes: 2000,
            tx_packets: 20,
            tx_errors: 7,
            tx_dropped: 8,
            carrier_changes: None,
        };
        assert_eq!(interfaces[1], vlan);
    }

    #[test]
    fn short_interface_line_is_named_in_the_error() {
        assert!(parse("\n\n lo: 1 2 3\n").unwrap_err().to_string().contains("lo: 1 2 3"));
    }

    #[test]
    fn interface_counters_of_the_running_kernel_are_parsed() {
        assert!(read(&mut file(), &[]).unwrap().iter().any(|interface| interface.name == "lo"));
    }
}
