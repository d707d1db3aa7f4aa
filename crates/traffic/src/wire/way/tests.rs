use iolab_engine::Random;
use iolab_protocol::wire::WireWay;

use super::*;
use crate::impairments::{seed_of_way, stage_seeds};

const SEGMENT: usize = 1000;

/// Return an ECN-capable super-frame of TCP over IPv4 with this number of frames; its checksums are not checked.
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

/// Return the frames of this super-frame one by one.
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

/// Return all decisions of one direction on these frames: the departure time and the changes of each frame. `asked` is
/// the number of polls between two frames, as by a thread while no frame arrives.
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

/// The same frames at the same times get the same decisions, whether they arrive in super-frames or one by one, and
/// whenever the thread polls, in real time and in virtual time.
#[test]
fn super_frames_and_polling_times_do_not_change_decisions() {
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

/// Create one direction with these impairments and a random seed.
fn drawing(impairments: &str, seed: u64) -> Way {
    let impairments = serde_json::from_str(impairments).unwrap();
    Way::new(Does::new(&WireWay { impairments, seed, memory_bytes: 1 << 20 }, 0, Nanos::ZERO).unwrap())
}

/// Return the delay of each of this number of frames, sent one per millisecond from `begin_ms` on; none for a lost
/// frame.
fn stays_ns(way: &mut Way, begin_ms: u64, frames: u64) -> Vec<Option<u64>> {
    (begin_ms..begin_ms + frames)
        .map(|at_ms| stay_ns(way, Nanos::from_millis(at_ms), &super_frame(1)))
        .collect()
}

fn stay_ns(way: &mut Way, at: Nanos, bytes: &[u8]) -> Option<u64> {
    way.does.held.vacancy(MOST_READ_BYTES).unwrap()[..bytes.len()].copy_from_slice(bytes);
    way.arrive(bytes.len(), at);
    way.settle();
    let ready = way.does.held.ready(Nanos::MAX, usize::MAX);
    let stays = (ready > 0).then(|| way.does.held.frame(0).1.at.since(at).0);
    way.does.held.release(ready);
    stays
}

const CHANCES: [&str; 5] = [
    r#"[{"kind":"loss","frames_per_billion":200000000}]"#,
    r#"[{"kind":"loss_bursts","to_bad_per_billion":200000000,"to_good_per_billion":300000000,
        "lost_in_bad_per_billion":800000000,"lost_in_good_per_billion":100000000}]"#,
    r#"[{"kind":"loss_pattern","lost":[true,false,false,true,false]}]"#,
    r#"[{"kind":"delay","delay_ns":300000,"jitter":{"kind":"uniform","most_ns":200000},"correlation_per_billion":500000000}]"#,
    r#"[{"kind":"reorder","frames_per_billion":300000000,"by_ns":1000}]"#,
];

/// A block restarts its random draws: neither earlier frames nor the age of the link change them.
#[test]
fn restarted_random_draws_equal_those_of_a_new_link() {
    for chance in CHANCES {
        let fresh = stays_ns(&mut drawing(chance, 7), 0, 200);
        let mut used = drawing(chance, 8);
        let other = stays_ns(&mut used, 0, 203);
        used.restart_draws(7, 0);
        assert_eq!(stays_ns(&mut used, 300, 200), fresh, "{chance}");
        used.restart_draws(9, 0);
        let third = stays_ns(&mut used, 600, 200);
        if !chance.contains("pattern") {
            assert!(other[..200] != fresh && third != fresh, "{chance}");
        }
    }
}

/// Frames lost at one loss level are also lost at a higher level, and a frame's jitter does not depend on the fate of
/// other frames, because the levels of a block share their random draws.
#[test]
fn levels_of_a_block_share_their_random_draws() {
    let jitter = r#"{"kind":"delay","delay_ns":300000,"jitter":{"kind":"normal","deviation_ns":50000}}"#;
    let all = stays_ns(&mut drawing(&format!("[{jitter}]"), 5), 0, 5_000);
    let at = |loss: u32| {
        let text = format!(r#"[{{"kind":"loss","frames_per_billion":{loss}}},{jitter}]"#);
        stays_ns(&mut drawing(&text, 5), 0, 5_000)
    };
    let (low, high) = (at(20_000_000), at(50_000_000));
    let lost = |stays: &[Option<u64>]| stays.iter().filter(|one| one.is_none()).count();
    assert!((60..140).contains(&lost(&low)) && (180..320).contains(&lost(&high)));
    for number in 0..5_000 {
        assert!(low[number].is_some() || high[number].is_none(), "frame {number}");
        assert!([low[number], high[number]].iter().flatten().all(|stay| Some(*stay) == all[number]));
    }
}

/// Over many seeds, the first three frames are lost at the configured ratio, to within 3.3 standard deviations of a
/// binomial count (0.1 %).
#[test]
fn first_frames_are_lost_as_often_as_all_frames() {
    let mut lost = [0_u32; 3];
    let mut way = drawing(r#"[{"kind":"loss","frames_per_billion":20000000}]"#, 1);
    for seed in 1..=10_000 {
        way.restart_draws(seed, 0);
        let fates = stays_ns(&mut way, 3 * seed, 3);
        lost.iter_mut().zip(fates).for_each(|(count, fate)| *count += u32::from(fate.is_none()));
    }
    let deviation = (10_000.0 * 0.02 * 0.98_f64).sqrt();
    assert!(lost.iter().all(|count| (f64::from(*count) - 200.0).abs() < 3.3 * deviation), "{lost:?}");
}

/// Random draws of two links, of both directions, of each stage and of different blocks are uncorrelated, although
/// their seeds are adjacent numbers.
#[test]
fn random_draws_of_links_directions_stages_and_blocks_are_independent() {
    const FRAMES: u64 = 100_000;
    let kinds = ["loss", "corrupt", "delay"];
    let mut streams: Vec<Vec<f64>> = Vec::new();
    for seed in 1..=4 {
        for way in 0..2 {
            for stage in stage_seeds(&kinds, seed_of_way(seed, way)) {
                let draws = iolab_engine::Draws::new(stage);
                let unit = |drawn: u64| (drawn as f64 / 2f64.powi(64) - 0.5) * 12f64.sqrt();
                streams.push((0..FRAMES).map(|number| unit(draws.at(number, 0))).collect());
            }
        }
    }
    let most = 4.0 / (FRAMES as f64).sqrt();
    for (index, one) in streams.iter().enumerate() {
        for other in &streams[..index] {
            let product: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
            let correlation = product / FRAMES as f64;
            assert!(correlation.abs() <= most, "{correlation}");
        }
    }
}

/// Neither random impairments nor a full queue affect neighbour discovery frames; these frames pass the line and the
/// delay in order.
#[test]
fn neighbour_discovery_frames_are_exempt_from_loss_and_counted() {
    let mut arp = vec![0; TAP_HEADER_BYTES];
    arp.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6]);
    arp.resize(TAP_HEADER_BYTES + 60, 0);
    let mut way = drawing(
        r#"[{"kind":"loss","frames_per_billion":500000000},{"kind":"corrupt","frames_per_billion":1000000000},
        {"kind":"duplicate","frames_per_billion":1000000000},
        {"kind":"line","rate":{"kind":"bits","bps":512000},"queue":{"kind":"frames","frames":1}},
        {"kind":"delay","delay_ns":5000000,"jitter":{"kind":"uniform","most_ns":4000000}},
        {"kind":"reorder","frames_per_billion":1000000000,"by_ns":1000000}]"#,
        3,
    );
    // 64 B with FCS take 1 ms on the line.
    let stays: Vec<_> = (0..3).map(|_| stay_ns(&mut way, Nanos::from_millis(1), &arp)).collect();
    assert_eq!(stays, [Some(6_000_000), Some(7_000_000), Some(8_000_000)]);
    let counts = way.counts();
    assert_eq!((counts.arrived_frames, counts.spared_frames, counts.copied_frames), (3, 3, 0));
    // These frames have no number, so the decisions on other frames are the same without them.
    let loss = CHANCES[0];
    let (mut among, mut alone) = (drawing(loss, 4), drawing(loss, 4));
    for at in 0..100 {
        assert!(stay_ns(&mut among, Nanos::from_millis(2 * at), &arp).is_some());
        assert_eq!(stays_ns(&mut among, 2 * at + 1, 1), stays_ns(&mut alone, 2 * at + 1, 1));
    }
}
