//! Tests that frames recorded by other programs are stamped if they have room for a stamp, and that iolab and tshark
//! find their checksums correct.

mod common;

use std::sync::Arc;

use common::tshark::{dissect, Row};
use common::{v4, v6, TAG};
use iolab_frame::{
    Check, FrameTemplate, Inspection, Inspector, MacAddress, Payload, Recording, RecordingError, Replay,
    SizeMix, Stamp, TemplateConfig, Transport, Tunnel, TunnelEnds, TunnelKind,
};

fn entries(frames: &[(u64, Vec<u8>)]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for (time_ns, frame) in frames {
        bytes.extend(time_ns.to_le_bytes());
        bytes.extend(u16::try_from(frame.len()).expect("short").to_le_bytes());
        bytes.extend(frame);
    }
    bytes.into()
}

fn recorded(config: &TemplateConfig, flow: u32) -> Vec<u8> {
    let template = FrameTemplate::new(config).expect("a template");
    let mut buffer = vec![0; template.largest_bytes()];
    template.emit(0, flow, 3, 4, &mut buffer).expect("a frame");
    // The checksums are as in captures at a sender, where the network card computes them later.
    buffer
}

/// Return frames of every transport, without a tunnel, in VXLAN and in GRE, over both IP versions, with invalid stamps
/// and checksums.
fn samples() -> Vec<Vec<u8>> {
    let ends = TunnelEnds::V4([198, 18, 9, 1].into(), [198, 19, 9, 1].into());
    let tunnels = [None, Some(TunnelKind::Vxlan { vni: 5 }), Some(TunnelKind::Gre)];
    let mut found = Vec::new();
    for kind in tunnels {
        for transport in [Transport::Udp, Transport::Tcp, Transport::Icmp] {
            for base in [v4(sizes(), 1), v6(sizes(), 0)] {
                let tunnel = kind.map(|kind| Tunnel { ends, kind });
                let config = TemplateConfig { tunnel, transport, payload: Payload::Random(1), ..base };
                let mut frame = recorded(&config, 7);
                let last = frame.len() - 1;
                frame[last] ^= 0x55; // now all checksums are wrong
                found.push(frame);
            }
        }
    }
    found
}

fn sizes() -> SizeMix {
    SizeMix::single(217).expect("a size")
}

fn replay(frames: &[(u64, Vec<u8>)]) -> Replay {
    let recording = Arc::new(Recording::new(entries(frames)).expect("a recording"));
    let mac = |last| MacAddress([2, 0, 0, 0, 0, last]);
    Replay { recording, source_mac: mac(1), destination_mac: mac(2), tag: TAG }
}

fn sent(replay: &Replay, index: usize) -> Vec<u8> {
    let mut buffer = vec![0xee; replay.recording.largest_bytes()];
    let length = replay.emit(index, 9, 1234, &mut buffer).expect("a frame");
    buffer.truncate(length);
    buffer
}

#[test]
fn recorded_frames_carry_the_stamp_and_valid_checksums() {
    let frames: Vec<_> = (0..).zip(samples()).collect();
    let replay = replay(&frames);
    assert_eq!((replay.recording.unstamped_frames(), replay.recording.times_ns().len()), (0, 18));
    let all: Vec<_> = (0..frames.len()).map(|index| sent(&replay, index)).collect();
    for (index, frame) in all.iter().enumerate() {
        let flow = replay.recording.flows()[index];
        let meant = Stamp { tag: TAG, flow, sequence: 9, tx_time_ns: 1234 };
        assert_eq!(
            Inspector::new(TAG, 0, Check::Whole).inspect(frame),
            Inspection::Ours(meant),
            "frame {index}"
        );
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    }
    let fields = [
        "ip.checksum.status",
        "udp.checksum.status",
        "tcp.checksum.status",
        "icmp.checksum.status",
        "icmpv6.checksum.status",
    ];
    let Some(rows) = dissect(&fields, &all) else { return };
    for (Row(row), index) in rows.iter().zip(0..) {
        let statuses: Vec<_> =
            row.iter().flat_map(|field| field.split(',')).filter(|one| !one.is_empty()).collect();
        assert!(statuses.iter().all(|&status| status == "1" || status == "3"), "frame {index}: {row:?}");
    }
}

#[test]
fn recorded_frames_without_room_for_a_stamp_are_sent_unchanged() {
    let short = TemplateConfig {
        transport: Transport::Tcp,
        may_go_unstamped: true,
        ..v4(SizeMix::single(64).expect("a size"), 0)
    };
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let replay = replay(&[(0, recorded(&v4(sizes(), 0), 1)), (5, recorded(&short, 2)), (5, arp.clone())]);
    assert_eq!((replay.recording.flow_count(), replay.recording.unstamped_frames()), (1, 2));
    assert_eq!(*replay.recording.flows(), [0, 1, 1], "they are of one flow behind the others");
    assert_eq!(Inspector::new(TAG, 0, Check::Whole).inspect(&sent(&replay, 1)), Inspection::Foreign);
    assert_eq!(sent(&replay, 2)[12..], arp[12..]);
}

#[test]
fn recorded_frames_with_equal_addresses_and_ports_are_one_flow() {
    let config = v4(sizes(), 0);
    let frames = [1, 2, 1, 3, 1].map(|flow| (0, recorded(&config, flow)));
    assert_eq!(*replay(&frames).recording.flows(), [0, 1, 0, 2, 0]);
}

#[test]
fn invalid_recording_is_refused_with_its_location() {
    let frame = vec![0; 60];
    let whole = entries(&[(5, frame.clone()), (6, frame.clone())]);
    let refused = |bytes: &[u8]| Recording::new(bytes.into()).map(|_| ()).expect_err("refused");
    assert_eq!(refused(&whole[..whole.len() - 1]), RecordingError::Cut { frame: 1 });
    assert_eq!(refused(&whole[..75]), RecordingError::Cut { frame: 1 });
    assert_eq!(refused(&[]), RecordingError::Empty);
    assert_eq!(refused(&entries(&[(5, frame.clone()), (4, frame)])), RecordingError::TimeBack { frame: 1 });
    assert_eq!(refused(&entries(&[(5, vec![0; 59])])), RecordingError::Length { frame: 0, seen_bytes: 59 });
}

#[test]
fn arbitrary_bytes_in_a_recording_cause_no_panic() {
    let mut numbers = common::Numbers(5);
    let samples = samples();
    for _ in 0..3000 {
        let mut frame = samples[numbers.below(samples.len())].clone();
        for _ in 0..numbers.below(6) {
            let at = 12 + numbers.below(90);
            frame[at] = numbers.next().to_le_bytes()[0];
        }
        let replay = replay(&[(0, frame)]);
        assert_eq!(sent(&replay, 0).len(), 213);
    }
}
