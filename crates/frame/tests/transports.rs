//! Tests with TCP, echoes and tunnels: iolab, and tshark as an independent implementation, read the frames of a
//! template back.

mod common;

use common::tshark::{dissect, Row};
use common::{v4, v6, TAG};
use iolab_frame::{
    Check, Corruption, FrameTemplate, Inspection, Inspector, IpVersion, Payload, SizeMix, Stamp,
    TemplateConfig, TemplateError, Transport, Tunnel, TunnelEnds, TunnelKind,
};

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Icmp];
const VXLAN: TunnelKind = TunnelKind::Vxlan { vni: 0xab_cdef };

fn ends() -> [TunnelEnds; 2] {
    [
        TunnelEnds::V4([198, 18, 9, 1].into(), [198, 19, 9, 1].into()),
        TunnelEnds::V6("2001:2::9:1".parse().expect("IPv6"), "2001:2::9:2".parse().expect("IPv6")),
    ]
}

fn tunnels() -> Vec<Option<Tunnel>> {
    let wraps = [VXLAN, TunnelKind::Gre];
    let all = ends().into_iter().flat_map(|ends| wraps.map(|kind| Some(Tunnel { ends, kind })));
    std::iter::once(None).chain(all).collect()
}

/// Return configurations of every transport in every tunnel over both IP versions, tagged or not, with a payload of
/// random bytes.
fn every_kind() -> Vec<TemplateConfig> {
    let mut found = Vec::new();
    for (tunnel, transport) in tunnels().into_iter().flat_map(|one| TRANSPORTS.map(|other| (one, other))) {
        for tags in [0, 1] {
            for base in [v4(sizes(), tags), v6(sizes(), tags)] {
                found.push(TemplateConfig { tunnel, transport, payload: Payload::Random(7), ..base });
            }
        }
    }
    found
}

fn sizes() -> SizeMix {
    SizeMix::single(251).expect("a size")
}

fn emit(config: &TemplateConfig, flow: u32, sequence: u64) -> Vec<u8> {
    let template = FrameTemplate::new(config).expect("a template");
    let mut buffer = vec![0; template.largest_bytes()];
    let length = template.emit(0, flow, sequence, 99, &mut buffer).expect("a frame");
    buffer.truncate(length);
    buffer
}

#[test]
fn every_kind_of_frame_is_recognised_and_its_damage_detected() {
    for config in every_kind() {
        let inspector = Inspector::new(TAG, 42, Check::Whole);
        for flow in [0, 1, 5000, 10_099] {
            let mut bytes = emit(&config, flow, 0x1_2345);
            let meant = Stamp { tag: TAG, flow, sequence: 0x1_2345, tx_time_ns: 99 };
            assert_eq!(inspector.inspect(&bytes), Inspection::Ours(meant), "{config:?}");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            assert_eq!(inspector.inspect(&bytes), Inspection::Corrupted(Corruption::Payload), "{config:?}");
        }
    }
}

/// A device at the end of a tunnel forwards the inner frame.
#[test]
fn decapsulated_frame_is_still_recognised() {
    for ends in ends() {
        let tunnel = Some(Tunnel { ends, kind: VXLAN });
        let config = TemplateConfig { tunnel, transport: Transport::Tcp, ..v4(sizes(), 0) };
        let bytes = emit(&config, 3, 4);
        let outer = if matches!(ends, TunnelEnds::V4(..)) { 14 + 20 } else { 14 + 40 };
        let inside = Inspector::new(TAG, 0, Check::Whole).inspect(&bytes[outer + 8 + 8..]);
        assert!(matches!(inside, Inspection::Ours(Stamp { flow: 3, sequence: 4, .. })), "{inside:?}");
    }
}

#[test]
fn tshark_finds_every_checksum_valid() {
    let fields = [
        "ip.checksum.status",
        "udp.checksum.status",
        "tcp.checksum.status",
        "icmp.checksum.status",
        "icmpv6.checksum.status",
        "vxlan.vni",
        "gre.proto",
        "tcp.flags",
        "icmp.ident",
        "icmp.seq",
        "_ws.malformed",
    ];
    let configs = every_kind();
    let Some(rows) = dissect(&fields, &configs.iter().map(|config| emit(config, 77, 9)).collect::<Vec<_>>())
    else {
        return;
    };
    assert_eq!(rows.len(), configs.len());
    for (Row(row), config) in rows.iter().zip(&configs) {
        let [ip, udp, tcp, icmp, icmp_v6, vni, gre, flags, identifier, number, malformed] = &row[..] else {
            panic!("{row:?}")
        };
        let good = |statuses: &str, none_allowed: bool| {
            statuses.split(',').all(|status| status == "1" || none_allowed && status == "3")
        };
        let version = config.flows.version();
        let vxlan = config.tunnel.filter(|tunnel| tunnel.kind == VXLAN);
        let checked = match (config.transport, version) {
            (Transport::Udp, _) => udp,
            (Transport::Tcp, _) => tcp,
            (Transport::Icmp, IpVersion::V4) => icmp,
            (Transport::Icmp, IpVersion::V6) => icmp_v6,
        };
        // VXLAN over IPv4 has no outer checksum (RFC 7348).
        let free = vxlan.is_some_and(|tunnel| matches!(tunnel.ends, TunnelEnds::V4(..)));
        assert!(checked.ends_with('1') && good(checked, free), "{row:?} of {config:?}");
        assert!(ip.is_empty() || good(ip, false), "{row:?} of {config:?}");
        assert!(malformed.is_empty(), "{row:?} of {config:?}");
        assert_eq!(vni, if vxlan.is_some() { "11259375" } else { "" }, "{config:?}");
        if let Some(Tunnel { kind: TunnelKind::Vxlan { .. }, ends: TunnelEnds::V6(..) }) = config.tunnel {
            assert!(udp.starts_with('1'), "{row:?}: over IPv6 there is a checksum");
        }
        let wrapped = config.tunnel.is_some_and(|tunnel| tunnel.kind == TunnelKind::Gre);
        let inside = if version == IpVersion::V4 { "0x0800" } else { "0x86dd" };
        assert_eq!(gre, if wrapped { inside } else { "" });
        assert_eq!(flags, if config.transport == Transport::Tcp { "0x0010" } else { "" });
        if (config.transport, version) == (Transport::Icmp, IpVersion::V4) {
            assert_eq!((identifier.as_str(), number.as_str()), ("49229", "9"));
        }
    }
}

#[test]
fn frames_without_room_for_a_stamp_are_unstamped_or_refused() {
    let smallest = |transport, tunnel, may_go_unstamped, bytes| {
        let sizes = SizeMix::single(bytes).expect("a size");
        FrameTemplate::new(&TemplateConfig { transport, tunnel, may_go_unstamped, ..v4(sizes, 0) })
    };
    let tunnel = Some(Tunnel { ends: ends()[0], kind: VXLAN });
    for (transport, tunnel, least) in
        [(Transport::Tcp, None, 58), (Transport::Udp, tunnel, 96), (Transport::Udp, None, 46)]
    {
        let stamped = smallest(transport, tunnel, false, least + 18).map(|template| template.is_stamped());
        assert_eq!(stamped, if least + 18 < 64 { stamped.clone() } else { Ok(true) });
        let refused = smallest(transport, tunnel, false, (least + 17).max(64)).err();
        if least + 17 >= 64 {
            assert!(
                matches!(refused, Some(TemplateError::NoRoom { smallest_bytes, .. }) if smallest_bytes == least + 18)
            );
            let bare = smallest(transport, tunnel, true, least + 17).expect("without a stamp");
            assert!(!bare.is_stamped());
        }
    }
    let refused = smallest(Transport::Udp, tunnel, true, 95).err();
    assert!(matches!(refused, Some(TemplateError::NoRoom { smallest_bytes: 96, .. })), "{refused:?}");
}

#[test]
fn frame_without_a_stamp_is_foreign_and_has_a_valid_checksum() {
    let sizes = SizeMix::single(64).expect("a size");
    let config = TemplateConfig { transport: Transport::Tcp, may_go_unstamped: true, ..v4(sizes, 0) };
    let bytes = emit(&config, 8, 1);
    assert_eq!(bytes.len(), 60);
    assert_eq!(Inspector::new(TAG, 54, Check::Whole).inspect(&bytes), Inspection::Foreign);
    let Some(rows) = dissect(&["tcp.checksum.status", "tcp.len"], &[bytes]) else { return };
    assert_eq!(rows, [Row(vec!["1".into(), "6".into()])]);
}
