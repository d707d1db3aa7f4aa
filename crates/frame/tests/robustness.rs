//! Tests that no bytes make a parser panic. `IOLAB_FUZZ_CASES` sets how many random frames are read (default 100 000),
//! a tenth of them as recordings.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use common::{v4, v6, Numbers, TAG};
use iolab_frame::{
    latency_ns, locate, udp_checksum, Check, EtherType, EthernetRepr, EthernetView, FrameTemplate,
    Inspection, Inspector, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, MacAddress, Pseudo, Recording, Replay,
    SizeMix, Stamp, UdpRepr, UdpView, VlanRepr, VlanTag, VlanView,
};
use proptest::prelude::*;

fn cases() -> u64 {
    std::env::var("IOLAB_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

/// Generate valid frames with every combination of headers, because random bytes alone hardly ever form a valid first
/// header.
fn samples() -> Vec<Vec<u8>> {
    let size = || SizeMix::single(132).expect("a size");
    let configs = (0..=2).flat_map(|tags| [v4(size(), tags), v6(size(), tags)]);
    configs
        .map(|config| {
            let mut buffer = vec![0; 128];
            let template = FrameTemplate::new(&config).expect("a template");
            template.emit(0, 9, 10, 11, &mut buffer).expect("a frame");
            buffer
        })
        .collect()
}

/// Generate random bytes, or a valid frame that is truncated, extended and damaged.
fn mutate(numbers: &mut Numbers, samples: &[Vec<u8>], frame: &mut Vec<u8>) {
    frame.clear();
    if numbers.below(4) == 0 {
        let length = numbers.below(160);
        frame.extend((0..length).map(|_| numbers.next().to_le_bytes()[0]));
        return;
    }
    frame.extend_from_slice(&samples[numbers.below(samples.len())]);
    if numbers.below(3) == 0 {
        frame.resize(numbers.below(200), 0);
    }
    for _ in 0..numbers.below(4) {
        if !frame.is_empty() {
            let at = numbers.below(frame.len().min(90));
            frame[at] = numbers.next().to_le_bytes()[0];
        }
    }
}

/// Call every accessor and parser at every offset at which a frame may contain a header.
fn read_everything(frame: &[u8]) -> u64 {
    let mut sum = 0u64;
    for offset in [0, 14, 18, 22, 34, 38, 42, 54, 58, 62] {
        let Some(bytes) = frame.get(offset..) else { break };
        if let Ok(view) = EthernetView::new(bytes) {
            sum += u64::from(EthernetRepr::parse(&view).is_ok()) + view.payload().len() as u64;
        }
        if let Ok(view) = VlanView::new(bytes) {
            sum += u64::from(VlanRepr::parse(&view).is_ok()) + view.payload().len() as u64;
        }
        if let Ok(view) = Ipv4View::new(bytes) {
            sum += u64::from(Ipv4Repr::parse(&view).is_ok()) + view.payload().len() as u64;
            sum += u64::from(view.checksum()) + u64::from(view.is_fragment());
        }
        if let Ok(view) = Ipv6View::new(bytes) {
            sum += u64::from(Ipv6Repr::parse(&view).is_ok()) + view.payload().len() as u64;
        }
        if let Ok(view) = UdpView::new(bytes) {
            let v4 = Pseudo::V4(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
            let v6 = Pseudo::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            sum +=
                u64::from(UdpRepr::parse(&view, v4).is_ok()) + u64::from(UdpRepr::parse(&view, v6).is_ok());
            sum += u64::from(view.check_checksum(v4).is_ok()) + view.payload().len() as u64;
        }
        sum += u64::from(Stamp::from_bytes(bytes).is_some());
    }
    sum
}

#[test]
fn arbitrary_bytes_cause_no_panic_in_a_reader() {
    let samples = samples();
    let mut numbers = Numbers(0x10_1ab);
    let mut frame = Vec::new();
    let (mut ours, mut corrupted, mut foreign) = (0u64, 0u64, 0u64);
    for _ in 0..cases() {
        mutate(&mut numbers, &samples, &mut frame);
        let _ = std::hint::black_box(read_everything(&frame));
        let _ = std::hint::black_box(locate(&frame).is_ok());
        match Inspector::new(TAG, 42, Check::Whole).inspect(&frame) {
            Inspection::Ours(stamp) => {
                assert_eq!((stamp.flow, stamp.sequence, stamp.tx_time_ns), (9, 10, 11), "a made-up stamp");
                ours += 1;
            }
            Inspection::OtherTag(stamp) => panic!("{stamp:?} was never sent"),
            Inspection::Corrupted(_) => corrupted += 1,
            Inspection::Foreign => foreign += 1,
        }
    }
    assert!(ours > 0 && corrupted > 0 && foreign > 0, "each kind was met: {ours}, {corrupted}, {foreign}");
}

/// Recordings in the controller's format, some with damaged entries, are read or refused; frames of a recording that
/// was read can be sent.
#[test]
fn any_recording_is_read_or_refused() {
    let samples = samples();
    let mut numbers = Numbers(0x10_1ac);
    let (mut read, mut refused) = (0u64, 0u64);
    for _ in 0..cases() / 10 {
        let mut bytes = Vec::new();
        for index in 0..=numbers.below(4) as u64 {
            let mut frame = Vec::new();
            mutate(&mut numbers, &samples, &mut frame);
            bytes.extend(index.to_le_bytes());
            bytes.extend(u16::try_from(frame.len()).expect("short").to_le_bytes());
            bytes.extend(frame);
        }
        if numbers.below(4) == 0 {
            let at = numbers.below(bytes.len());
            bytes[at] = numbers.next().to_le_bytes()[0];
        }
        let Ok(recording) = Recording::new(bytes.into()) else {
            refused += 1;
            continue;
        };
        let recording = Arc::new(recording);
        let count = recording.times_ns().len();
        let replay = Replay {
            recording,
            source_mac: MacAddress([2; 6]),
            destination_mac: MacAddress([4; 6]),
            tag: TAG,
        };
        let mut buffer = vec![0; 256];
        for index in 0..count {
            read += replay.emit(index, 1, 2, &mut buffer).map_or(0, |_| 1);
        }
    }
    assert!(read > 0 && refused > 0, "each was met: {read} frames, {refused} recordings");
}

fn mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(MacAddress)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ethernet_header_reads_back_as_written(destination in mac(), source in mac(), ether_type in 0x600..=u16::MAX) {
        let mut source = source;
        source.0[0] &= 0xfe;
        let repr = EthernetRepr { destination, source, ether_type: EtherType(ether_type) };
        let mut bytes = [0; 14];
        prop_assert_eq!(repr.emit(&mut bytes), Ok(14));
        prop_assert_eq!(EthernetRepr::parse(&EthernetView::new(&bytes).expect("whole")), Ok(repr));
        prop_assert_eq!(source.to_string().parse(), Ok(source));
    }

    #[test]
    fn vlan_tag_reads_back_as_written(id in 0..4095u16, priority in 0..8u8, drop_eligible: bool, next: u16) {
        let repr = VlanRepr { tag: VlanTag { id, priority, drop_eligible }, ether_type: EtherType(next) };
        let mut bytes = [0; 4];
        prop_assert_eq!(repr.emit(&mut bytes), Ok(4));
        prop_assert_eq!(VlanRepr::parse(&VlanView::new(&bytes).expect("whole")), Ok(repr));
    }

    #[test]
    fn ipv4_header_reads_back_as_written(
        addresses: [u32; 2], protocol: u8, traffic_class: u8, identification: u16, dont_fragment: bool,
        ttl: u8, payload_bytes in 0..2000u16,
    ) {
        let [source, destination] = addresses.map(Ipv4Addr::from);
        let repr = Ipv4Repr {
            source, destination, protocol, traffic_class, identification, dont_fragment, ttl, payload_bytes,
        };
        let mut bytes = vec![0; 20 + usize::from(payload_bytes)];
        prop_assert_eq!(repr.emit(&mut bytes), Ok(20));
        prop_assert_eq!(Ipv4Repr::parse(&Ipv4View::new(&bytes).expect("whole")), Ok(repr));
    }

    #[test]
    fn ipv6_header_reads_back_as_written(
        addresses: [u128; 2], next_header: u8, traffic_class: u8, flow_label in 0..=0xf_ffffu32,
        hop_limit: u8, payload_bytes in 0..2000u16,
    ) {
        let [source, destination] = addresses.map(Ipv6Addr::from);
        let repr = Ipv6Repr {
            source, destination, next_header, traffic_class, flow_label, hop_limit, payload_bytes,
        };
        let mut bytes = vec![0; 40 + usize::from(payload_bytes)];
        prop_assert_eq!(repr.emit(&mut bytes), Ok(40));
        prop_assert_eq!(Ipv6Repr::parse(&Ipv6View::new(&bytes).expect("whole")), Ok(repr));
    }

    #[test]
    fn udp_header_reads_back_as_written(
        addresses: [u128; 2], source_port: u16, destination_port: u16,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let [source, destination] = addresses.map(Ipv6Addr::from);
        let pseudo = Pseudo::V6(source, destination);
        let payload_bytes = u16::try_from(payload.len()).expect("short");
        let repr = UdpRepr { source_port, destination_port, payload_bytes };
        let mut bytes = [vec![0; 8], payload].concat();
        prop_assert_eq!(repr.emit(pseudo, &mut bytes), Ok(8));
        prop_assert_eq!(UdpRepr::parse(&UdpView::new(&bytes).expect("whole"), pseudo), Ok(repr));
        let written = u16::from_be_bytes([bytes[6], bytes[7]]);
        bytes[6..8].fill(0);
        prop_assert_eq!(written, udp_checksum(pseudo, &bytes));
    }

    #[test]
    fn stamp_reads_back_as_written(tag: u16, flow in 0..1u32 << 20, sequence in 0..1u64 << 36, sent: u64, later in 0..1u64 << 38) {
        let stamp = Stamp { tag, flow, sequence, tx_time_ns: sent };
        let read = Stamp::from_bytes(&stamp.to_bytes()).expect("whole");
        prop_assert_eq!((read.tag, read.flow, read.sequence), (tag, flow, sequence));
        prop_assert_eq!(latency_ns(read.tx_time_ns, sent.wrapping_add(later)), i64::try_from(later).expect("small"));
    }
}
