//! All kernel counters of lost frames in the network namespace of the calling thread, under the kernel's
//! names. The caller reads the driver statistics of an interface (`ethtool -S`), because this crate makes no
//! unsafe system calls.

use std::collections::BTreeMap;

use iolab_protocol::observations::DropCounters;

use crate::{read_text, SampleError};

pub mod reasons;

/// Driver statistics of an interface, as pairs of name and value.
pub type DriverCounters = Vec<(String, u64)>;

/// Read all drop counters; `driver` returns the driver statistics of an interface.
///
/// # Errors
/// Returns an error if a file cannot be read or parsed.
pub fn read(driver: impl Fn(&str) -> DriverCounters) -> Result<Vec<DropCounters>, SampleError> {
    let mut drops = interfaces(&read_text("/proc/thread-self/net/dev")?)?;
    let names: Vec<String> = drops.iter().map(|place| place.name.clone()).collect();
    for name in names {
        let counters: BTreeMap<_, _> =
            driver(&name).into_iter().filter(|(name, _)| tells_of_drops(name)).collect();
        if !counters.is_empty() {
            drops.push(DropCounters { place: "driver".to_owned(), name, counters });
        }
    }
    drops.extend(protocols(&read_text("/proc/thread-self/net/snmp")?)?);
    // The file does not exist if IPv6 is disabled.
    drops.extend(read_text("/proc/thread-self/net/snmp6").map(|text| protocols6(&text)).unwrap_or_default());
    drops.extend(reasons::read());
    Ok(drops)
}

/// Parse the drop counters in the text of `/proc/net/dev`.
///
/// # Errors
/// Returns an error if a line is not a name with its counters.
pub fn interfaces(text: &str) -> Result<Vec<DropCounters>, SampleError> {
    text.lines().skip(2).map(interface).collect()
}

fn interface(line: &str) -> Result<DropCounters, SampleError> {
    let wrong = || SampleError::format("/proc/net/dev", "a name and sixteen counters", line);
    let (name, counters) = line.rsplit_once(':').ok_or_else(wrong)?;
    let values = counters.split_ascii_whitespace().map(|word| word.parse().map_err(|_| wrong()));
    let values = values.collect::<Result<Vec<u64>, _>>()?;
    let names = [
        (2, "rx_errors"),
        (3, "rx_dropped"),
        (4, "rx_fifo_errors"),
        (5, "rx_frame_errors"),
        (10, "tx_errors"),
        (11, "tx_dropped"),
        (12, "tx_fifo_errors"),
        (14, "tx_carrier_errors"),
    ];
    let counter = |&(place, name): &(usize, &str)| {
        values.get(place).map(|&value| (name.to_owned(), value)).ok_or_else(wrong)
    };
    let counters = names.iter().map(counter).collect::<Result<_, _>>()?;
    Ok(DropCounters { place: "interface".to_owned(), name: name.trim().to_owned(), counters })
}

/// Parse the drop counters in the text of `/proc/net/snmp`, which has a line of names and a line of values
/// for each protocol.
///
/// # Errors
/// Returns an error if a line of values does not match its line of names.
pub fn protocols(text: &str) -> Result<Vec<DropCounters>, SampleError> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).map(|pair| {
        let wrong = || SampleError::format("/proc/net/snmp", "a line of names and one of values", pair[1]);
        let ((name, names), (_, values)) =
            pair[0].split_once(':').zip(pair[1].split_once(':')).ok_or_else(wrong)?;
        let named = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        let counters = named.filter(|(name, _)| tells_of_drops(name));
        let counters = counters.map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        let counters = counters.collect::<Option<BTreeMap<_, _>>>().ok_or_else(wrong)?;
        Ok(DropCounters { place: "protocol".to_owned(), name: name.to_owned(), counters })
    });
    let mut places = pairs.collect::<Result<Vec<_>, _>>()?;
    places.retain(|place| !place.counters.is_empty());
    Ok(places)
}

/// Parse the drop counters in the text of `/proc/net/snmp6`, which has a name (with its protocol as prefix)
/// and a value on each line.
pub fn protocols6(text: &str) -> Vec<DropCounters> {
    let prefixes = ["Icmp6", "Ip6", "UdpLite6", "Udp6"];
    let mut places: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) else { continue };
        let Some(protocol) = prefixes.into_iter().find(|prefix| name.starts_with(prefix)) else { continue };
        let name = &name[protocol.len()..];
        if tells_of_drops(name) {
            places.entry(protocol).or_default().insert(name.to_owned(), value);
        }
    }
    let place = |(name, counters): (&str, _)| DropCounters {
        place: "protocol".to_owned(),
        name: name.to_owned(),
        counters,
    };
    places.into_iter().map(place).collect()
}

/// Whether a counter counts drops, judged by its name, because the kernel and the drivers provide no other
/// classification. All fragment counters are included: one lost fragment loses the whole datagram.
fn tells_of_drops(name: &str) -> bool {
    const WORDS: [&str; 12] = [
        "drop", "err", "discard", "miss", "noroute", "noport", "overrun", "no_buf", "fifo", "oob", "reasm",
        "frag",
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word)) || name.contains("fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_its_drop_counters() {
        let text = "Ip: Forwarding ReasmReqds InDiscards\nIp: 1 100 7\nTcp: ActiveOpens\nTcp: 4\n\
                    Udp: InDatagrams InErrors RcvbufErrors\nUdp: 5 2 1\n";
        let places = protocols(text).unwrap();
        let seen: Vec<_> = places.iter().map(|place| (place.name.as_str(), place.counters.clone())).collect();
        let counters =
            |pairs: &[(&str, u64)]| pairs.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let udp = counters(&[("InErrors", 2), ("RcvbufErrors", 1)]);
        assert_eq!(seen, [("Ip", counters(&[("ReasmReqds", 100), ("InDiscards", 7)])), ("Udp", udp)]);
        assert!(protocols("Udp: InErrors\nUdp: x\n").is_err());
    }

    #[test]
    fn ipv6_protocol_names_are_split_from_their_counters() {
        let places = protocols6("Ip6InReceives 4\nIp6InDiscards 2\nUdp6RcvbufErrors\t3\nnothing\n");
        assert_eq!(places.len(), 2);
        assert_eq!((places[0].name.as_str(), places[0].counters["InDiscards"]), ("Ip6", 2));
        assert_eq!((places[1].name.as_str(), places[1].counters["RcvbufErrors"]), ("Udp6", 3));
    }

    #[test]
    fn drop_counters_of_guest_nics_are_recognised_by_name() {
        // Counter names of these drivers in Linux 6.1: virtio_net, e1000 and e1000e, igb, vmxnet3, 8139cp, veth.
        let drops = [
            "rx_queue_0_drops",
            "rx_queue_0_xdp_drops",
            "tx_queue_0_xdp_tx_drops",
            "rx_missed_errors",
            "rx_no_buffer_count",
            "rx_over_errors",
            "rx_fifo_errors",
            "rx_long_length_errors",
            "alloc_rx_buff_failed",
            "tx_dropped",
            "rx_queue_0_alloc_failed",
            "dropped_smbus",
            "drv dropped rx total",
            "drv dropped tx total",
            "rx buf alloc fail",
            "pkts rx OOB",
            "pkts rx err",
            "pkts tx discard",
            "rx_fifo",
        ];
        for name in drops {
            assert!(tells_of_drops(name), "{name}");
        }
        let others = [
            "rx_queue_0_packets",
            "rx_bytes",
            "tx_kicks",
            "rx_csum_offload_good",
            "tx_restart_queue",
            "LRO pkts rx",
            "tx_ok",
            "ring_rx",
        ];
        for name in others {
            assert!(!tells_of_drops(name), "{name}");
        }
    }

    #[test]
    fn only_drop_counters_of_an_interfaces_statistics_are_kept() {
        let own =
            |_: &str| vec![("rx_queue_0_drops".to_owned(), 3), ("rx_queue_0_xdp_packets".to_owned(), 9)];
        let drops = read(own).unwrap();
        let driver = drops.iter().find(|place| place.place == "driver" && place.name == "lo").unwrap();
        assert_eq!(driver.counters, BTreeMap::from([("rx_queue_0_drops".to_owned(), 3)]));
        let lo = drops.iter().find(|place| place.place == "interface" && place.name == "lo").unwrap();
        assert!(lo.counters.contains_key("rx_dropped"));
        assert!(drops.iter().any(|place| place.name == "Udp" && place.counters.contains_key("RcvbufErrors")));
    }
}
