//! Tests of the pacer in virtual time: exact rates, bounded bursts, explicit stalls, reproducible decisions.

use iolab_engine::{
    Decision, EngineError, Limit, Nanos, Pacer, PacerConfig, PacerStats, Random, Rate, Share, StallCause,
    StallPolicy,
};
use iolab_frame::{SizeMix, SizeShare};
use proptest::prelude::*;

fn config(rate: Rate, max_burst: u32, stall: StallPolicy, duration: Nanos) -> PacerConfig {
    PacerConfig {
        start: Nanos::from_secs(5),
        rate,
        max_burst,
        stall,
        limit: Limit { frames: None, duration: Some(duration) },
        stall_threshold: Nanos::from_micros(50),
    }
}

fn fps(frames: u64) -> Rate {
    Rate::frames_per_second(frames, 1).expect("a rate")
}

fn single() -> SizeMix {
    SizeMix::single(64).expect("a size")
}

const CATCH_UP: StallPolicy = StallPolicy::CatchUp { max_frames: 100_000 };

/// Poll the pacer at every wake-up, late by `lateness`, and return the transmit times and the statistics.
fn run(
    config: &PacerConfig,
    sizes: &SizeMix,
    lateness: impl FnMut(Nanos) -> u64,
) -> (Vec<Nanos>, PacerStats) {
    run_share(config, sizes, Share::WHOLE, lateness)
}

fn run_share(
    config: &PacerConfig,
    sizes: &SizeMix,
    share: Share,
    mut lateness: impl FnMut(Nanos) -> u64,
) -> (Vec<Nanos>, PacerStats) {
    let mut pacer = Pacer::shared(config, sizes, share).expect("a pacer");
    let pattern = sizes.pattern();
    let (mut now, mut times) = (config.start, Vec::new());
    loop {
        match pacer.poll(now) {
            Decision::Send => {
                pacer.advance(now, usize::from(pattern[times.len() % pattern.len()]));
                times.push(now);
            }
            Decision::Wait(until) => {
                assert!(until > now, "a wait goes forward");
                now = until.plus(Nanos(lateness(until)));
            }
            Decision::Done => return (times, pacer.finish()),
        }
    }
}

/// Return the maximum number of frames in any span of the given length that begins with a frame.
fn most_within(times: &[Nanos], span: Nanos) -> usize {
    let mut end = 0;
    let ahead = |(begin, at): (usize, &Nanos)| {
        while end < times.len() && times[end].since(*at) <= span {
            end += 1;
        }
        end - begin
    };
    times.iter().enumerate().map(ahead).max().unwrap_or(0)
}

#[test]
fn every_rate_sends_exact_frame_times_when_polled_in_time() {
    for frames in [1, 3, 9_999, 10_000, 500_000, 1_488_095] {
        let config = config(fps(frames), 1, StallPolicy::Slip, Nanos::from_secs(1));
        let (times, stats) = run(&config, &single(), |_| 0);
        assert_eq!((times.len() as u64, stats.unsent_frames), (frames, 0));
        let meant = |i: u64| config.start.plus(Nanos(i * 1_000_000_000 / frames));
        assert!(
            times.iter().zip(0..).all(|(&at, i)| at == meant(i)),
            "each frame at its own time, rounded down"
        );
    }
}

#[test]
fn several_senders_keep_one_schedule() {
    for (frames, of) in [(1, 2), (9_999, 2), (500_000, 3), (1_488_095, 4)] {
        let config = config(fps(frames), 1, StallPolicy::Slip, Nanos::from_secs(1));
        let (whole, stats) = run(&config, &single(), |_| 0);
        let shares: Vec<_> =
            Share::all(of).map(|share| run_share(&config, &single(), share, |_| 0)).collect();
        let mut times: Vec<_> = shares.iter().flat_map(|(times, _)| times.iter().copied()).collect();
        times.sort_unstable();
        assert!(times == whole, "{frames} frames/s by {of} senders leave at the times of one");
        let intended: u64 = shares.iter().map(|(_, stats)| stats.intended_frames).sum();
        assert_eq!(intended, stats.intended_frames);
    }
}

#[test]
fn bit_rate_cannot_be_divided_among_senders() {
    let bits = Rate::layer2_bps(1_000_000).expect("a rate");
    let config = config(bits, 1, StallPolicy::Slip, Nanos::from_secs(1));
    let refused = Pacer::shared(&config, &single(), Share { place: 1, of: 2 }).map(|_| ());
    assert_eq!(refused, Err(EngineError::SharedBits { of: 2 }));
}

#[test]
fn polling_jitter_does_not_accumulate() {
    let mut random = Random::new(1);
    for rate in [10_000, 100_000, 500_000, 700_001] {
        for stall in [StallPolicy::Slip, CATCH_UP] {
            let config = config(fps(rate), 8, stall, Nanos::from_secs(2));
            let (times, stats) = run(&config, &single(), |_| u64::from(random.below(3_000)));
            assert_eq!((times.len() as u64, stats.slipped), (2 * rate, Nanos::ZERO));
            let last = config.start.plus(Nanos((2 * rate - 1) * 1_000_000_000 / rate));
            assert!(times[times.len() - 1].since(last) < Nanos(3_000));
        }
    }
}

#[test]
fn bit_rate_is_exact_for_a_mix_of_sizes() {
    let sizes = SizeMix::simple_imix();
    let rate = Rate::layer1_bps(1_000_000_000).expect("a rate");
    let (times, stats) = run(&config(rate, 4, CATCH_UP, Nanos::from_secs(1)), &sizes, |_| 0);
    let pattern = sizes.pattern();
    let bytes = |i: usize| u64::from(sizes.shares()[usize::from(pattern[i % 12])].frame_bytes) + 20;
    let bits: u64 = (0..times.len()).map(|i| bytes(i) * 8).sum();
    assert!(bits.abs_diff(1_000_000_000) < 1538 * 8, "{bits} bits in the second");
    assert!(times.len().abs_diff(usize::try_from(stats.intended_frames).expect("few")) <= 12);
    assert_eq!(
        times[1].since(times[0]).0,
        (64 + 20) * 8,
        "the gap after a frame is its own time on the line"
    );
}

#[test]
fn no_window_contains_more_than_the_maximum_burst() {
    let mut random = Random::new(2);
    for max_burst in [1, 2, 8, 64] {
        let config = config(fps(200_000), max_burst, CATCH_UP, Nanos::from_secs(1));
        let jitter = |_| if random.below(1_000) == 0 { 700_000 } else { u64::from(random.below(9_000)) };
        let (times, stats) = run(&config, &single(), jitter);
        assert!(stats.stall_count > 0, "there was something to catch up");
        let burst = max_burst as usize;
        for gaps in [0, 1, 10, 100] {
            // Twice the rate with a bucket depth of max_burst allows at most this number of frames in this number of
            // gaps of 5 us.
            let allowed = burst + 2 * gaps;
            let seen = most_within(&times, Nanos(gaps as u64 * 5_000));
            assert!(seen <= allowed, "burst {max_burst}: {seen} frames in {gaps} gaps, {allowed} allowed");
        }
        let frames: u64 = stats.bursts.iter().zip(0..).map(|(&count, length)| count * length).sum();
        assert_eq!(frames, stats.sent_frames, "each frame is in one burst");
        assert!(stats.bursts[burst + 1..].iter().all(|&count| count == 0));
    }
}

#[test]
fn slip_shifts_the_schedule_and_is_reported() {
    let config = config(fps(100_000), 1, StallPolicy::Slip, Nanos::from_secs(1));
    let stall = Nanos::from_secs(5).plus(Nanos::from_millis(300));
    let (times, stats) = run(&config, &single(), |until| if until == stall { 2_000_000 } else { 0 });
    assert_eq!(stats.slipped, Nanos::from_micros(1_990), "all but the one gap that is tolerated");
    assert_eq!((stats.sent_frames, stats.unsent_frames), (99_801, 199));
    assert_eq!(stats.sent_frames, times.len() as u64);
    let [entry] = stats.stalls[..] else { panic!("one stall: {:?}", stats.stalls) };
    assert_eq!(
        (entry.late, entry.slipped, entry.cause),
        (Nanos::from_millis(2), stats.slipped, StallCause::NotAsked)
    );
    assert_eq!(entry.begin, stall.since(Nanos::from_micros(10)), "the last call before it");
}

#[test]
fn catching_up_loses_no_frame_and_ends_when_the_lag_is_gone() {
    let config = config(fps(100_000), 1, StallPolicy::CatchUp { max_frames: 1_000 }, Nanos::from_secs(1));
    let stall = Nanos::from_secs(5).plus(Nanos::from_millis(300));
    let (times, stats) = run(&config, &single(), |until| if until == stall { 2_000_000 } else { 0 });
    assert_eq!((times.len(), stats.unsent_frames, stats.slipped), (100_000, 0, Nanos::ZERO));
    let [entry] = stats.stalls[..] else { panic!("one stall: {:?}", stats.stalls) };
    let lasted = entry.end.since(stall);
    assert!(
        (3_900_000..=4_000_000).contains(&lasted.0),
        "2 ms late, made good at twice the rate: {lasted:?}"
    );
}

#[test]
fn catching_up_is_limited_to_the_configured_frames() {
    let config = config(fps(100_000), 1, StallPolicy::CatchUp { max_frames: 50 }, Nanos::from_secs(1));
    let stall = Nanos::from_secs(5).plus(Nanos::from_millis(300));
    let (_, stats) = run(&config, &single(), |until| if until == stall { 2_000_000 } else { 0 });
    assert_eq!(stats.slipped, Nanos::from_micros(1_500));
    assert_eq!(stats.unsent_frames, 150);
}

#[test]
fn full_transmit_ring_is_named_as_the_cause_of_a_stall() {
    let config = config(fps(100_000), 1, StallPolicy::Slip, Nanos::from_millis(10));
    let mut pacer = Pacer::new(&config, &single()).expect("a pacer");
    assert_eq!(pacer.poll(config.start), Decision::Send);
    pacer.note_blocked();
    let later = config.start.plus(Nanos::from_millis(1));
    assert_eq!(pacer.poll(later), Decision::Send);
    pacer.advance(later, 0);
    let stats = pacer.finish();
    assert_eq!((stats.stalls[0].cause, stats.blocked_polls), (StallCause::NoRoom, 1));
}

#[test]
fn frame_limit_ends_a_trial() {
    let mut config = config(fps(100_000), 1, CATCH_UP, Nanos::from_secs(1));
    config.limit.frames = Some(17);
    assert_eq!(run(&config, &single(), |_| 0).0.len(), 17);
    config.limit = Limit { frames: Some(17), duration: None };
    let (times, stats) = run(&config, &single(), |_| 0);
    assert_eq!((times.len(), stats.intended_frames, stats.unsent_frames), (17, 17, 0));
}

#[test]
fn equal_calls_give_equal_decisions() {
    let times = |seed| {
        let mut random = Random::new(seed);
        let config = config(fps(333_333), 4, CATCH_UP, Nanos::from_millis(300));
        run(&config, &single(), |_| u64::from(random.below(20_000))).0
    };
    assert_eq!(times(3), times(3));
    assert_ne!(times(3), times(4));
}

#[test]
fn invalid_pacer_settings_are_refused() {
    let good = config(fps(1), 1, StallPolicy::Slip, Nanos(1));
    let refused = |config: PacerConfig| Pacer::new(&config, &single()).map(|_| ()).expect_err("refused");
    for seen in [0, 65] {
        assert_eq!(refused(PacerConfig { max_burst: seen, ..good }), EngineError::MaxBurst { seen });
    }
    assert_eq!(refused(PacerConfig { limit: Limit::default(), ..good }), EngineError::NoLimit);
}

#[test]
fn rate_too_high_for_the_caller_gives_full_bursts_and_unsent_frames() {
    let config = config(fps(10_000_000), 64, StallPolicy::Slip, Nanos::from_millis(100));
    let mut pacer = Pacer::new(&config, &single()).expect("a pacer");
    let mut now = config.start;
    loop {
        match pacer.poll(now) {
            Decision::Send => pacer.advance(now, 0),
            Decision::Wait(_) => now = now.plus(Nanos::from_micros(20)),
            Decision::Done => break,
        }
    }
    let stats = pacer.finish();
    assert_eq!((stats.intended_frames, stats.sent_frames), (1_000_000, 5_000 * 64 + 1));
    assert_eq!(stats.unsent_frames, 1_000_000 - 5_000 * 64 - 1);
    assert_eq!(
        (stats.bursts[1], stats.bursts[64]),
        (1, 5_000),
        "one at the start, then all that a turn may send"
    );
    assert_eq!(stats.stall_count, 0, "slow is not stalled");
}

fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        (1..5_000_000u64, 1..1_000u64).prop_map(|(n, d)| Rate::frames_per_second(n, d).expect("a rate")),
        (1..1u64 << 40).prop_map(|bps| Rate::layer1_bps(bps).expect("a rate")),
        (1..1u64 << 40).prop_map(|bps| Rate::layer2_bps(bps).expect("a rate")),
        (1..=100u64, 1..1_000u64)
            .prop_map(|(n, d)| Rate::percent_of_line(n, d, 10_000_000_000).expect("a rate")),
    ]
}

fn mixes() -> impl Strategy<Value = SizeMix> {
    let share = (64..=9216u16, 1..20u16).prop_map(|(frame_bytes, weight)| SizeShare { frame_bytes, weight });
    proptest::collection::vec(share, 1..6).prop_map(|shares| SizeMix::new(&shares).expect("a mix"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pacer_counters_add_up_for_any_configuration(
        rate in rates(), sizes in mixes(), max_burst in 1..=64u32, caught_up in proptest::option::of(0..2_000u32),
        frames in 1..3_000u64, duration in 1..1u64 << 34, jitter in 1..1u32 << 24, seed: u64,
    ) {
        let stall = caught_up.map_or(StallPolicy::Slip, |max_frames| StallPolicy::CatchUp { max_frames });
        let mut config = config(rate, max_burst, stall, Nanos(duration));
        config.limit.frames = Some(frames);
        let mut random = Random::new(seed);
        let (times, stats) = run(&config, &sizes, |_| u64::from(random.below(jitter)));
        prop_assert_eq!(times.len() as u64, stats.sent_frames);
        prop_assert!(stats.sent_frames <= frames);
        // With a mix, the last round may be incomplete, so up to one round more or less is sent.
        let round = sizes.pattern().len() as u64;
        prop_assert!(stats.sent_frames <= stats.intended_frames + round);
        prop_assert_eq!(stats.unsent_frames, stats.intended_frames.saturating_sub(stats.sent_frames));
        prop_assert_eq!(stats.gaps.count(), stats.sent_frames.saturating_sub(1));
        prop_assert_eq!(stats.lateness.count(), stats.sent_frames);
        let in_bursts: u64 = stats.bursts.iter().zip(0..).map(|(&count, length)| count * length).sum();
        prop_assert_eq!(in_bursts, stats.sent_frames);
    }
}

/// The gaps of a recording are scaled to the rate, round after round, without the loss of a nanosecond.
#[test]
fn recording_keeps_its_gaps_scaled_to_the_rate() {
    let limit = Limit { frames: None, duration: Some(Nanos::from_secs(1)) };
    let rate = Rate::frames_per_second(3000, 1).expect("a rate");
    let config = PacerConfig {
        start: Nanos::ZERO,
        rate,
        max_burst: 1,
        stall: StallPolicy::Slip,
        limit,
        stall_threshold: Nanos::from_millis(1),
    };
    // A short gap, then a long one: with the mean gap after the last frame, a round takes 30 us.
    let mut pacer = Pacer::recorded(&config, &[100, 5_100, 20_100]).expect("a pacer");
    assert_eq!(pacer.intended_frames(), 3000);
    let (mut now, mut times) = (Nanos::ZERO, Vec::new());
    loop {
        match pacer.poll(now) {
            Decision::Send => {
                times.push(now.0);
                pacer.advance(now, (times.len() - 1) % 3);
            }
            Decision::Wait(until) => now = until,
            Decision::Done => break,
        }
    }
    assert_eq!(times.len(), 3000);
    assert_eq!(times[..4], [0, 166_666, 666_666, 1_000_000]);
    assert_eq!(times[2999], 999_666_666);
}
