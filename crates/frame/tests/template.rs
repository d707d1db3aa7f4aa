//! Tests that the header parsers read the frames of a template back, byte for byte.

mod common;

use common::{v4, v6, TAG};
use iolab_frame::{
    locate, Check, Corruption, EtherType, EthernetRepr, EthernetView, FrameTemplate, Inspection, Inspector,
    IpVersion, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, SizeMix, SizeShare, Stamp, TemplateConfig,
    TemplateError, UdpRepr, UdpView, VlanRepr, VlanView, WireError,
};

fn single(frame_bytes: u16) -> SizeMix {
    SizeMix::single(frame_bytes).expect("a size in range")
}

fn frame(config: &TemplateConfig, size: usize, flow: u32, sequence: u64, time_ns: u64) -> Vec<u8> {
    let template = FrameTemplate::new(config).expect("a template");
    let mut buffer = vec![0xee; template.largest_bytes()];
    let length = template.emit(size, flow, sequence, time_ns, &mut buffer).expect("a frame");
    buffer.truncate(length);
    buffer
}

#[test]
fn smallest_frame_is_exactly_headers_and_stamp() {
    let bytes = frame(&v4(single(64), 0), 0, 0, 0, 0);
    assert_eq!(bytes.len(), 60);
    assert_eq!(locate(&bytes).expect("UDP").payload_offset, 42);
}

#[test]
fn every_header_field_has_its_configured_value() {
    let config = v4(single(128), 2);
    let bytes = frame(&config, 0, 101, 7, 9);
    let view = EthernetView::new(&bytes).expect("Ethernet");
    let ethernet = EthernetRepr::parse(&view).expect("Ethernet");
    assert_eq!(
        ethernet,
        EthernetRepr {
            destination: config.destination_mac,
            source: config.source_mac,
            ether_type: EtherType::QINQ
        }
    );
    let outer = VlanView::new(view.payload()).expect("a tag");
    let inner = VlanView::new(outer.payload()).expect("a tag");
    let meant = |tag, ether_type| VlanRepr { tag, ether_type };
    assert_eq!(VlanRepr::parse(&outer), Ok(meant(config.vlans[0], EtherType::VLAN)));
    assert_eq!(VlanRepr::parse(&inner), Ok(meant(config.vlans[1], EtherType::IPV4)));
    let ip = Ipv4Repr::parse(&Ipv4View::new(inner.payload()).expect("IPv4")).expect("IPv4");
    assert_eq!(
        ip,
        Ipv4Repr {
            source: "198.18.0.2".parse().expect("flow 101 mod 100"),
            destination: "198.19.0.1".parse().expect("flow 101 mod 101"),
            protocol: 17,
            traffic_class: 0xb8,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            payload_bytes: 124 - 14 - 8 - 20,
        }
    );
    let located = locate(&bytes).expect("UDP");
    let view = UdpView::new(located.segment).expect("UDP");
    let udp = UdpRepr::parse(&view, located.pseudo).expect("UDP");
    assert_eq!(udp, UdpRepr { source_port: 49_153, destination_port: 9, payload_bytes: 74 });
    assert_ne!(view.checksum(), 0, "the checksum is always there");
    assert_eq!(
        Stamp::from_bytes(located.payload()),
        Some(Stamp { tag: TAG, flow: 101, sequence: 7, tx_time_ns: 9 })
    );
}

#[test]
fn ipv6_flows_vary_their_addresses_within_a_64_prefix() {
    let bytes = frame(&v6(single(84), 0), 0, 102, 0, 0);
    let ip = Ipv6Repr::parse(&Ipv6View::new(&bytes[14..]).expect("IPv6")).expect("IPv6");
    assert_eq!(ip.source, "2001:2:0:8001:ffff::3".parse::<std::net::Ipv6Addr>().expect("an address"));
    assert_eq!(
        ip.destination,
        "2001:2:0:8001:ffff:1:0:7fff".parse::<std::net::Ipv6Addr>().expect("an address")
    );
    assert_eq!((ip.hop_limit, ip.traffic_class, ip.payload_bytes), (64, 0xb8, 26));
    assert_eq!(locate(&bytes).expect("UDP").version, IpVersion::V6);
}

#[test]
fn too_small_frame_size_is_refused_with_the_minimum_size() {
    for (config, smallest) in [
        (v4(single(67), 1), 68),
        (v4(single(64), 2), 72),
        (v6(single(83), 0), 84),
        (v6(single(64), 1), 88),
        (v6(single(91), 2), 92),
    ] {
        let error = FrameTemplate::new(&config).expect_err("too small");
        assert!(
            matches!(error, TemplateError::NoRoom { smallest_bytes, .. } if smallest_bytes == smallest),
            "{error}"
        );
        let fits = TemplateConfig { sizes: single(smallest), ..config };
        assert_eq!(frame(&fits, 0, 0, 0, 0).len(), usize::from(smallest) - 4);
    }
}

#[test]
fn checksums_are_valid_for_every_flow_and_size() {
    let sizes =
        SizeMix::new(&[84, 85, 594, 1518, 9216].map(|frame_bytes| SizeShare { frame_bytes, weight: 1 }));
    let sizes = sizes.expect("a mix");
    for config in [v4(sizes.clone(), 0), v4(sizes.clone(), 1), v6(sizes, 0)] {
        let template = FrameTemplate::new(&config).expect("a template");
        let inspector = Inspector::new(TAG, template.stamp_offset(), Check::Whole);
        let mut buffer = vec![0; template.largest_bytes()];
        for flow in 0..10_100u32 {
            let stamp =
                Stamp { tag: TAG, flow, sequence: u64::from(flow) << 20, tx_time_ns: u64::from(flow) * 99 };
            let size = flow as usize % 5;
            let length =
                template.emit(size, flow, stamp.sequence, stamp.tx_time_ns, &mut buffer).expect("a frame");
            assert_eq!(inspector.inspect(&buffer[..length]), Inspection::Ours(stamp));
        }
    }
}

#[test]
fn primed_buffer_gives_the_same_bytes_whatever_it_contained() {
    let template = FrameTemplate::new(&v4(SizeMix::simple_imix(), 0)).expect("a template");
    let mut primed = vec![0; template.largest_bytes()];
    template.prime(&mut primed).expect("room");
    for (sequence, size) in [0, 2, 1, 2, 0, 1].into_iter().enumerate() {
        let mut whole = vec![0; template.largest_bytes()];
        let sequence = sequence as u64;
        let length = template.emit(size, 3, sequence, 5, &mut whole).expect("a frame");
        assert_eq!(template.emit_primed(size, 3, sequence, 5, &mut primed), Ok(length));
        assert_eq!(primed[..length], whole[..length]);
    }
}

#[test]
fn frame_depends_only_on_its_arguments() {
    let config = v4(single(128), 0);
    assert_eq!(frame(&config, 0, 17, 12_345, 678_910), frame(&config, 0, 17, 12_345, 678_910));
}

#[test]
fn reversed_template_configuration_swaps_both_ends() {
    let config = v4(single(64), 0);
    let there = frame(&config, 0, 5, 0, 0);
    let back = frame(&config.reversed(1), 0, 5, 0, 0);
    assert_eq!(there[..6], back[6..12]);
    assert_eq!(there[26..30], back[30..34]);
    assert_eq!(there[34..36], back[36..38]);
}

#[test]
fn unknown_size_or_flow_of_a_template_is_refused() {
    let template = FrameTemplate::new(&v4(single(64), 0)).expect("a template");
    let mut buffer = [0; 60];
    assert!(matches!(template.emit(1, 0, 0, 0, &mut buffer), Err(WireError::Index { what: "size", .. })));
    assert!(matches!(
        template.emit(0, 10_100, 0, 0, &mut buffer),
        Err(WireError::Index { what: "flow", .. })
    ));
    assert!(matches!(template.emit(0, 0, 0, 0, &mut buffer[..59]), Err(WireError::Short { .. })));
    assert!(template.prime(&mut buffer[..59]).is_err());
}

#[test]
fn damaged_frames_are_distinguished_from_foreign_frames() {
    let config = v4(single(128), 0);
    let template = FrameTemplate::new(&config).expect("a template");
    let inspector = Inspector::new(TAG, template.stamp_offset(), Check::Whole);
    let whole = frame(&config, 0, 1, 2, 3);
    for byte in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x10;
        let meant = match byte {
            0..12 => None,
            12..42 => Some(Corruption::Headers),
            42..60 => Some(Corruption::Stamp),
            _ => Some(Corruption::Payload),
        };
        match (inspector.inspect(&damaged), meant) {
            (Inspection::Ours(_), None) => {}
            // A damaged UDP header whose length still fits is detected by its checksum.
            (Inspection::Corrupted(Corruption::Payload), Some(Corruption::Headers)) if byte >= 34 => {}
            (Inspection::Corrupted(seen), Some(meant)) => assert_eq!(seen, meant, "byte {byte}"),
            (seen, meant) => panic!("byte {byte}: {seen:?}, {meant:?} meant"),
        }
    }
    assert_eq!(inspector.inspect(&whole[..100]), Inspection::Corrupted(Corruption::Headers));
    assert_eq!(inspector.inspect(&whole[..59]), Inspection::Foreign);
    assert_eq!(inspector.inspect(&[0; 60]), Inspection::Foreign);
    let other = Inspector::new(TAG + 1, template.stamp_offset(), Check::Whole);
    assert!(matches!(other.inspect(&whole), Inspection::OtherTag(stamp) if stamp.tag == TAG));
}

#[test]
fn routed_and_tagged_frame_is_still_recognised() {
    let config = v4(single(68), 1);
    let template = FrameTemplate::new(&config).expect("a template");
    let sent = frame(&config, 0, 1, 2, 3);
    let mut routed = [&sent[..12], &sent[16..]].concat();
    routed[22] -= 1;
    let old = u16::from_be_bytes([sent[26], sent[27]]);
    let checksum = u16::from_be_bytes([routed[24], routed[25]]);
    let checksum = iolab_frame::update_checksum(checksum, old, old - 0x100);
    routed[24..26].copy_from_slice(&checksum.to_be_bytes());
    let inspector = Inspector::new(TAG, template.stamp_offset(), Check::Whole);
    let meant = Stamp { tag: TAG, flow: 1, sequence: 2, tx_time_ns: 3 };
    assert_eq!(inspector.inspect(&routed), Inspection::Ours(meant));
}

#[test]
fn udp_view_refuses_a_missing_checksum_only_over_ipv6() {
    for (config, allowed) in [(v4(single(84), 0), true), (v6(single(84), 0), false)] {
        let mut bytes = frame(&config, 0, 0, 0, 0);
        let udp = locate(&bytes).expect("UDP").payload_offset - 8;
        bytes[udp + 6..udp + 8].fill(0);
        let located = locate(&bytes).expect("UDP");
        assert_eq!(located.check_checksum().is_ok(), allowed);
        assert!(UdpView::new(&bytes[udp..udp + 7]).is_err());
    }
}
