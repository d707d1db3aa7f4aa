//! Measures the time per frame for pacing decisions, emission and accounting: `cargo bench -p iolab-engine`.

use std::hint::black_box;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use iolab_engine::{
    Bins, BucketCurve, Decision, Generator, Limit, Nanos, Order, PacerConfig, Rate, Receiver, ReceiverConfig,
    Schedule, StallPolicy, Trains, VirtualLine,
};
use iolab_frame::{
    Addresses, Check, FlowList, FrameTemplate, Inspector, MacAddress, Payload, SizeMix, Sweep,
    TemplateConfig, Transport,
};

const FRAMES: u64 = 2_000_000;
const ROUNDS: usize = 5;

fn main() {
    for what in ["bins", "bins on a line", "trains", "8 buckets"] {
        report(&format!("monitor: {what}"), || monitor(what));
    }
    for flows in [1, 100, 10_000] {
        report(&format!("pace, {flows} flows"), || pace(flows, false));
        report(&format!("pace and emit 64 B, {flows} flows"), || pace(flows, true));
        for order in [Order::Turns, Order::Seeded(1)] {
            report(&format!("inspect and account 64 B, {flows} flows, {order:?}"), || account(flows, order));
        }
    }
}

/// Return the time to observe `FRAMES` frames at 1 Mpps with the statistic `what`: windows of 12 us, raw or on a 10
/// Gbit/s line, trains, or 8 token buckets.
fn monitor(what: &str) -> Duration {
    let mut bins = Bins::new(Nanos::from_micros(12), 1 << 23).expect("windows");
    let mut line = VirtualLine::new(10_000_000_000).expect("a line");
    let mut trains = Trains::new(Nanos(500));
    let rates: Vec<u64> = (1..=8).map(|gbps| gbps * 1_000_000_000).collect();
    let mut curve = BucketCurve::new(&rates).expect("rates");
    let begin = Instant::now();
    for i in 0..FRAMES {
        let (at, bytes) = (Nanos(i * 1_000 + (i % 7) * 90), black_box(64));
        match what {
            "bins" => bins.push(at, 1, bytes),
            "bins on a line" => bins.push_span(line.push(at, 1, bytes), 1, bytes),
            "trains" => trains.push(at, 1, bytes),
            _ => curve.push(at, bytes),
        }
    }
    let elapsed = begin.elapsed();
    black_box((bins.finish(), trains.finish(), curve));
    elapsed
}

/// Return the time to pace `FRAMES` frames, and to emit them if requested.
fn pace(flows: u32, emit: bool) -> Duration {
    let (template, mut generator) = sender(flows, Order::Turns);
    let mut buffer = vec![0; template.largest_bytes()];
    let begin = Instant::now();
    let mut now = Nanos::ZERO;
    loop {
        match generator.poll(now) {
            Decision::Send => {
                let plan = generator.take(now);
                if emit {
                    let sent =
                        template.emit(plan.size, plan.flow, plan.sequence, plan.tx_time.0, &mut buffer);
                    black_box((sent.is_ok(), &mut buffer));
                }
            }
            Decision::Wait(until) => now = until,
            Decision::Done => return begin.elapsed(),
        }
    }
}

/// Return the time to recognise and account for `FRAMES` frames, without the time to create them.
fn account(flows: u32, order: Order) -> Duration {
    const BATCH: usize = 256;
    let (template, mut generator) = sender(flows, order);
    let inspector = Inspector::new(template.tag(), template.stamp_offset(), Check::Whole);
    let mut receiver = Receiver::new(ReceiverConfig::of_flows(flows)).expect("a receiver");
    let mut frames = vec![[0; 60]; BATCH];
    let (mut now, mut elapsed) = (Nanos::ZERO, Duration::ZERO);
    loop {
        let mut made = 0;
        while made < BATCH {
            match generator.poll(now) {
                Decision::Send => {
                    let plan = generator.take(now);
                    let sent = template.emit(plan.size, plan.flow, plan.sequence, now.0, &mut frames[made]);
                    sent.expect("a frame");
                    made += 1;
                }
                Decision::Wait(until) => now = until,
                Decision::Done => break,
            }
        }
        let begin = Instant::now();
        for frame in &frames[..made] {
            black_box(receiver.receive(&inspector, frame, now));
        }
        elapsed += begin.elapsed();
        if made < BATCH {
            assert_eq!(receiver.totals().received_frames, FRAMES);
            return elapsed;
        }
    }
}

fn sender(flows: u32, order: Order) -> (FrameTemplate, Generator) {
    let sizes = SizeMix::single(64).expect("a size");
    let pacing = PacerConfig {
        start: Nanos::ZERO,
        rate: Rate::frames_per_second(1_000_003, 1).expect("a rate"),
        max_burst: 8,
        stall: StallPolicy::CatchUp { max_frames: 1000 },
        limit: Limit { frames: Some(FRAMES), duration: None },
        stall_threshold: Nanos::from_micros(100),
    };
    let schedule = Schedule::new(&sizes, Order::Turns, flows, order).expect("a schedule");
    let generator = Generator::new(&pacing, &sizes, schedule).expect("a generator");
    let fixed = |octets| Sweep::fixed(Ipv4Addr::from(octets));
    let config = TemplateConfig {
        sizes,
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlans: Vec::new(),
        tunnel: None,
        transport: Transport::Udp,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        flows: FlowList {
            addresses: Addresses::V4(fixed([198, 18, 0, 1]), fixed([198, 19, 0, 1])),
            source_ports: Sweep::rising(1024, flows),
            destination_ports: Sweep::fixed(9),
            count: flows,
        },
        traffic_class: 0,
        hop_limit: 64,
        tag: 1,
    };
    (FrameTemplate::new(&config).expect("a template"), generator)
}

/// Print the time per frame of the fastest round (ns).
fn report(what: &str, round: impl Fn() -> Duration) {
    let fastest = (0..ROUNDS).map(|_| round()).min().expect("a round");
    let picoseconds = fastest.as_nanos() * 1000 / u128::from(FRAMES);
    let line = format!("{what}: {}.{} ns\n", picoseconds / 1000, picoseconds % 1000 / 100);
    std::io::stdout().write_all(line.as_bytes()).expect("stdout");
}
