//! Tests of whole trials in virtual time through devices of known behaviour: every frame is accounted for, and nothing
//! is random.

use iolab_engine::impairment::{
    Chain, Chance, Delay, Duplicate, Impairment, Line, LineClock, Loss, Outcome as Fate, Passing, QueueLimit,
    Reorder, Stalls,
};
use iolab_engine::{
    simulate, FramePlan, Generator, GeneratorReport, Host, Limit, Nanos, Order, PacerConfig, PathCounts,
    Rate, Receiver, ReceiverConfig, ReceiverReport, Schedule, StallPolicy,
};
use iolab_frame::SizeMix;

const START: Nanos = Nanos::from_secs(1_000);

struct Trial {
    rate: u64,
    frames: u64,
    flows: u32,
    host: Host,
}

struct Outcome {
    sent: GeneratorReport,
    received: ReceiverReport,
    path: PathCounts,
    plans: Vec<FramePlan>,
}

impl Trial {
    fn of(rate: u64, frames: u64) -> Self {
        Self { rate, frames, flows: 100, host: Host { turn: Nanos(200), stalls: Vec::new() } }
    }

    fn run(&self, path: Chain) -> Outcome {
        let sizes = SizeMix::simple_imix();
        let config = PacerConfig {
            start: START,
            rate: Rate::frames_per_second(self.rate, 1).expect("a rate"),
            max_burst: 8,
            stall: StallPolicy::CatchUp { max_frames: 1 << 20 },
            limit: Limit { frames: Some(self.frames), duration: None },
            stall_threshold: Nanos::from_micros(100),
        };
        let schedule = Schedule::new(&sizes, Order::Turns, self.flows, Order::Seeded(5)).expect("a schedule");
        let mut generator = Generator::new(&config, &sizes, schedule).expect("a generator");
        let mut receiver = Receiver::new(ReceiverConfig::of_flows(self.flows)).expect("a receiver");
        let mut plans = Vec::new();
        let observe = |plan: &FramePlan| plans.push(*plan);
        let path = simulate(&mut generator, &sizes, path, &mut receiver, START, &self.host, observe);
        let sent = generator.finish();
        let received = receiver.finish(&sent.sent_per_flow).expect("as many flows");
        Outcome { sent, received, path, plans }
    }
}

fn alone(stage: impl Impairment + 'static) -> Chain {
    Chain::new([Box::new(stage) as Box<dyn Impairment>])
}

fn loss(ratio: u32, seed: u64) -> Loss {
    Loss::random(ratio, seed).expect("a ratio")
}

/// Check for each flow that every sent frame is received unless the device lost it, and that every copy counts as a
/// duplicate.
fn assert_balance(outcome: &Outcome) {
    let totals = outcome.received.totals;
    assert_eq!(totals.sent_frames, outcome.sent.pacing.sent_frames);
    assert_eq!(totals.sent_frames, outcome.plans.len() as u64);
    assert_eq!(totals.sent_frames, totals.received_frames + totals.lost_frames);
    assert_eq!(totals.lost_frames, outcome.path.dropped_frames);
    assert_eq!(totals.duplicate_frames, outcome.path.copied_frames);
    assert_eq!((totals.surplus_frames, totals.too_late_frames), (0, 0));
    assert_eq!(outcome.received.arrived_frames, totals.arrived_frames() + outcome.received.stray.frames());
    assert_eq!(outcome.received.latency.count(), totals.received_frames);
    for (flow, &sent) in outcome.received.flows.iter().zip(&outcome.sent.sent_per_flow) {
        assert_eq!((flow.sent_frames, flow.received_frames + flow.lost_frames), (sent, sent));
    }
}

#[test]
fn path_without_stages_loses_and_delays_no_frame() {
    let outcome = Trial::of(1_000_000, 1_000_000).run(Chain::default());
    assert_balance(&outcome);
    assert_eq!(outcome.received.totals.lost_frames, 0);
    assert_eq!((outcome.received.latency.min(), outcome.received.latency.max()), (Some(0), Some(0)));
}

#[test]
fn loss_of_1_in_1000_is_measured_within_its_binomial_interval() {
    let outcome = Trial::of(500_000, 1_000_000).run(alone(loss(1_000_000, 11)));
    assert_balance(&outcome);
    // 1000 +- 2.576 standard deviations of 31.6.
    let lost = outcome.received.totals.lost_frames;
    assert!((919..=1081).contains(&lost), "{lost} lost");
}

#[test]
fn fixed_delay_is_measured_exactly() {
    let delay = Nanos(123_457);
    let outcome = Trial::of(100_000, 100_000).run(alone(Delay::constant(delay)));
    assert_balance(&outcome);
    let latency = &outcome.received.latency;
    assert_eq!((latency.min(), latency.max()), (Some(delay.0), Some(delay.0)));
    assert_eq!(latency.sum(), delay.0 * 100_000);
    let median = latency.quantile(500_000).expect("a median");
    assert!(median.abs_diff(delay.0) * 100 <= delay.0, "{median} ns");
}

#[test]
fn duplicates_and_reordered_frames_are_distinguished_from_losses() {
    let chance = |ratio, seed| Chance::new(ratio, seed).expect("a ratio");
    let path = Chain::new([
        Box::new(loss(5_000_000, 1)) as Box<dyn Impairment>,
        Box::new(Duplicate(chance(2_000_000, 2))),
        Box::new(Reorder { chance: chance(3_000_000, 3), by: Nanos::from_millis(7) }),
    ]);
    let outcome = Trial::of(500_000, 1_000_000).run(path);
    assert_balance(&outcome);
    let totals = outcome.received.totals;
    assert!(totals.lost_frames > 4_500 && totals.duplicate_frames > 1_800, "{totals:?}");
    // 0.3 % of the frames arrive 7 ms late; meanwhile, 34 other frames of the same flow arrive.
    assert!((2_700..3_300).contains(&totals.reordered_frames), "{totals:?}");
    let extent = outcome.received.reorder_extent.quantile(500_000).expect("reordered frames");
    assert!((25..45).contains(&extent), "median extent {extent}");
}

#[test]
fn path_of_limited_capacity_forwards_exactly_its_rate() {
    let trial = Trial::of(400_000, 400_000);
    let clock = LineClock::constant(Rate::frames_per_second(300_000, 1).expect("a rate"), Nanos(3_333));
    let outcome = trial.run(alone(Line::new(clock, QueueLimit::Frames(64), None)));
    assert_balance(&outcome);
    let received = outcome.received.totals.received_frames;
    assert!((300_000..=300_065).contains(&received), "{received} in one second and the queue's rest");
    let queue = outcome.received.latency.max().expect("received frames");
    assert!(queue <= 64 * 3_334, "no frame waited longer than the queue: {queue} ns");
}

#[test]
fn device_stall_delays_the_held_frames() {
    let stalls = Stalls::new(&[(START.plus(Nanos::from_millis(500)), Nanos::from_millis(5))], 1_000);
    let outcome = Trial::of(100_000, 100_000).run(alone(stalls));
    assert_balance(&outcome);
    assert_eq!(outcome.received.totals.lost_frames, 0);
    assert_eq!(outcome.received.latency.max(), Some(5_000_000));
}

#[test]
fn host_stalls_are_logged_and_lose_no_frame() {
    let stall = |at| (START.plus(Nanos::from_millis(at)), Nanos::from_millis(2));
    let mut trial = Trial::of(200_000, 200_000);
    trial.host.stalls = [100, 300, 301, 900].map(stall).to_vec();
    let outcome = trial.run(alone(loss(1_000_000, 7)));
    assert_balance(&outcome);
    // The third stall begins within the second, so both count as one stall.
    assert_eq!(outcome.sent.pacing.stall_count, 3);
    for (entry, &(begin, length)) in
        outcome.sent.pacing.stalls.iter().zip(&[stall(100), stall(300), stall(900)])
    {
        assert!(entry.begin <= begin && entry.end >= begin.plus(length), "{entry:?}");
        assert!(entry.late.0 >= 1_900_000, "{entry:?}");
    }
}

#[test]
fn equal_seeds_give_the_same_trial_frame_by_frame() {
    let run = |seed| {
        let mut trial = Trial::of(700_000, 100_000);
        trial.host.stalls = vec![(START.plus(Nanos::from_millis(20)), Nanos::from_millis(1))];
        let delay = Delay::constant(Nanos(77));
        trial.run(Chain::new([Box::new(loss(1_000_000, seed)) as Box<dyn Impairment>, Box::new(delay)]))
    };
    let (one, two, other) = (run(1), run(1), run(2));
    assert_eq!(one.plans, two.plans);
    assert_eq!(one.received.flows, two.received.flows);
    assert_eq!(one.plans, other.plans, "the path's seed does not reach the generator");
    assert_ne!(one.received.flows, other.received.flows);
}

/// The second of two frames overtakes the first in a delay stage: a line after that stage sends them in the order in
/// which they reach the line.
#[test]
fn stage_behind_a_reordering_stage_gets_frames_in_time_order() {
    let always = Chance::new(1_000_000_000, 1).expect("a ratio");
    let clock = LineClock::constant(Rate::frames_per_second(1_000_000, 1).expect("a rate"), Nanos::ZERO);
    let mut path = Chain::new([
        Box::new(Stalls::new(&[(Nanos(0), Nanos(10))], 1)) as Box<dyn Impairment>,
        Box::new(Reorder { chance: always, by: Nanos(5_000) }),
        Box::new(Line::new(clock, QueueLimit::Frames(1), None)),
        Box::new(Delay::constant(Nanos(1))),
    ]);
    for (id, at) in [(0, 3), (1, 20), (2, 25), (3, 7_000)] {
        path.push(Passing::new(id, 64, Nanos(at)));
    }
    path.advance(Nanos::from_secs(1));
    let fates: Vec<_> = path
        .decided()
        .map(|fate| match fate {
            Fate::Leaves(frame) => (frame.id, Some(frame.at.0)),
            Fate::Lost(frame, stage) => (frame.id, (stage != 2).then_some(0)),
        })
        .collect();
    assert_eq!(fates, [(0, Some(6_011)), (1, Some(7_011)), (2, None), (3, Some(13_001))]);
    let arrived: Vec<_> = path.counts().map(|counts| (counts.arrived_frames, counts.lost_frames)).collect();
    assert_eq!(arrived, [(4, 0), (4, 0), (4, 1), (3, 0)]);
    assert!(!path.keeps_order());
}
