use super::*;

const SEGMENT: usize = 1000;

/// A super-frame of TCP over IPv4 that stands for so many frames; ECN-capable. Checksums are not looked at here.
fn super_frame(count: usize) -> Vec<u8> {
    let (payload, kind) = (count * SEGMENT - 100, u8::from(count > 1));
    let mut bytes = vec![1, kind, 0, 0];
    let segment = if count > 1 { u16::try_from(SEGMENT).unwrap() } else { 0 };
    [segment, 34, 16].iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
    bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 2]);
    bytes.extend(u16::try_from(40 + payload).unwrap().to_be_bytes());
    bytes.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    bytes.extend([0x10, 0, 0x20, 0, 0, 0, 0, 100, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    bytes.extend(std::iter::repeat_n(7, payload));
    bytes
}

/// The same frames one by one.
fn apart(bytes: &[u8]) -> Vec<Vec<u8>> {
    let segments = Segments::of(bytes);
    let mut header = RunHeader::default();
    let mut one = |index| {
        let payload = segments.run(bytes, index, 1, &mut header);
        [header.bytes(), payload].concat()
    };
    (0..segments.count).map(&mut one).collect()
}

fn way() -> Way {
    let impairments = serde_json::from_str(
        r#"[{"kind":"loss_bursts","to_bad_per_billion":10000000,"to_good_per_billion":250000000,
        "lost_in_bad_per_billion":900000000,"lost_in_good_per_billion":1000000},
        {"kind":"corrupt","frames_per_billion":20000000},{"kind":"duplicate","frames_per_billion":20000000},
        {"kind":"line","rate":{"kind":"bits","bps":900000000},"queue":{"kind":"time","most_ns":3000000},
        "codel":{"target_ns":500000,"interval_ns":10000000}},
        {"kind":"delay","delay_ns":1000000,"jitter":{"kind":"normal","deviation_ns":200000},"overtaking":true}]"#,
    )
    .unwrap();
    Way::new(Does::new(&WireWay { impairments, seed: 3, memory_bytes: 1 << 28 }, 0, Nanos::ZERO).unwrap())
}

/// All decisions of a way on these frames: when each leaves, and what is done to it. `asked` is how often it is asked in
/// between, as a thread does when no frame comes.
fn decisions(arrivals: &[(u64, Vec<u8>)], asked: u64) -> (Vec<(u64, Passing)>, WayCounts) {
    let mut way = way();
    let mut now = 0;
    for (at, bytes) in arrivals {
        for turn in 1..=asked {
            way.does.chain.advance(Nanos(now + (at - now) * turn / (asked + 1)));
        }
        now = *at;
        way.does.held.vacancy(MOST_READ_BYTES).unwrap()[..bytes.len()].copy_from_slice(bytes);
        way.arrive(bytes.len(), Nanos(*at));
        way.settle();
    }
    way.does.chain.advance(Nanos::MAX);
    way.settle();
    let leaving = way.does.held.ready(Nanos::MAX, usize::MAX);
    let of = |index| {
        let (_, frame) = way.does.held.frame(index);
        (frame.id, frame)
    };
    ((0..leaving).map(of).collect(), way.counts())
}

/// The same frames at the same times have the same fates, whether they come as super-frames or apart, and whenever the
/// thread looks in between: in real time as in virtual time.
#[test]
fn super_frames_and_time_change_no_decision() {
    let mut random = Random::new(5);
    let whole: Vec<_> =
        (0..3_000u64).map(|number| (number * 130_000, super_frame(1 + random.below(40) as usize))).collect();
    let parts: Vec<_> =
        whole.iter().flat_map(|(at, bytes)| apart(bytes).into_iter().map(|one| (*at, one))).collect();
    let (fates, counts) = decisions(&whole, 0);
    assert!(
        parts.len() > 50_000
            && fates.len() > 10_000
            && counts.stages.iter().any(|one| one.lost_frames > 1_000)
    );
    assert_eq!((&fates, &counts), (&decisions(&parts, 0).0, &decisions(&parts, 0).1));
    assert_eq!((&fates, &counts), (&decisions(&whole, 7).0, &decisions(&whole, 7).1));
}
