//! Tests that no header or frame that a guest writes to a TAP device makes the segmentation of super-frames panic.
//!
//! `PROPTEST_CASES=10000000 cargo test --release -p iolab-frame --test super_frames` tests ten million frames.

use iolab_frame::{
    finish, is_ecn_capable, mark_congestion, RunHeader, Segments, SMALLEST_FRAME_BYTES, TAP_HEADER_BYTES,
};
use proptest::prelude::*;

/// Return a frame with up to two tags, IPv4 or IPv6, and TCP or UDP, and the TAP header that describes it.
fn whole(tags: usize, v6: bool, tcp: bool, segment: u16, payload: usize) -> Vec<u8> {
    let transport = 14 + 4 * tags + if v6 { 40 } else { 20 };
    let kind = match (tcp, v6) {
        (true, false) => 1,
        (true, true) => 4,
        (false, _) => 5,
    };
    let mut bytes = vec![1, kind, 0, 0];
    let checksum = if tcp { 16u16 } else { 6 };
    [segment, u16::try_from(transport).expect("short"), checksum]
        .iter()
        .for_each(|value| bytes.extend(value.to_ne_bytes()));
    bytes.extend([2; 12]);
    (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 5]));
    bytes.extend(if v6 { [0x86, 0xdd, 0x60, 0x20] } else { [0x08, 0x00, 0x45, 0x02] });
    bytes.resize(TAP_HEADER_BYTES + transport, 0);
    bytes.extend([0; 12]);
    bytes.extend([0x50, 0x19]);
    bytes.resize(TAP_HEADER_BYTES + transport + if tcp { 20 } else { 8 } + payload, 7);
    bytes
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![0..20usize, 20..4000usize];
    let made = (0..=2usize, any::<bool>(), any::<bool>(), any::<u16>(), 1..1500u16, payload).prop_map(
        |(tags, v6, tcp, odd, segment, payload)| {
            whole(tags, v6, tcp, if odd < 3000 { odd } else { segment }, payload)
        },
    );
    let damage = proptest::collection::vec((0..90usize, any::<u8>()), 0..4);
    let cut = proptest::option::weighted(0.2, any::<prop::sample::Index>());
    let random = proptest::collection::vec(any::<u8>(), TAP_HEADER_BYTES..160);
    let damaged = (made, damage, cut).prop_map(|(mut bytes, damage, cut)| {
        for (at, byte) in damage {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(TAP_HEADER_BYTES + cut.index(bytes.len() - TAP_HEADER_BYTES + 1));
        }
        bytes
    });
    prop_oneof![9 => damaged, 1 => random]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_cause_no_panic_in_super_frame_segmentation(bytes in frame(), first: u32, count: u32) {
        let segments = Segments::of(&bytes);
        prop_assert!((1..=65_536).contains(&segments.count));
        let first = first % segments.count;
        let count = 1 + count % (segments.count - first);
        let mut header = RunHeader::default();
        let payload = segments.run(&bytes, first, count, &mut header);
        let mut run = [header.bytes(), payload].concat();
        prop_assert!(run.len() <= bytes.len(), "a part is no longer than the whole");
        for index in [0, first, segments.count - 1] {
            prop_assert!(segments.frame_bytes(&bytes, index) <= bytes.len());
            prop_assert!(segments.line_bytes(&bytes, index) >= u32::from(SMALLEST_FRAME_BYTES));
        }
        if count == 1 {
            prop_assert_eq!(run.len(), TAP_HEADER_BYTES + segments.frame_bytes(&bytes, first));
        }
        let _ = std::hint::black_box(is_ecn_capable(&run[TAP_HEADER_BYTES..]));
        mark_congestion(&mut run[TAP_HEADER_BYTES..]);
        finish(&mut run);
    }

    #[test]
    fn segments_of_a_super_frame_carry_its_payload_once(
        tags in 0..=2usize, v6: bool, tcp: bool, segment in 1..1500u16, payload in 1..4000usize,
    ) {
        let bytes = whole(tags, v6, tcp, segment, payload);
        let segments = Segments::of(&bytes);
        let headers = bytes.len() - payload;
        let mut carried = 0;
        for index in 0..segments.count {
            let mut header = RunHeader::default();
            let part = segments.run(&bytes, index, 1, &mut header);
            carried += header.bytes().len() + part.len() - headers;
        }
        prop_assert_eq!(carried, payload);
    }
}
