//! Tests that the calls per frame allocate no memory after the first frames of a load, whichever statistics are
//! measured.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use std::net::Ipv4Addr;
use std::ops::Range;

use allocation_counter::measure;
use iolab_engine::{
    Bins, BucketCurve, Decision, Generator, Limit, Nanos, Order, PacerConfig, Rate, Receiver, ReceiverConfig,
    Schedule, StallPolicy, Trains, VirtualLine,
};
use iolab_frame::{
    Addresses, Check, FlowList, FrameTemplate, Inspector, MacAddress, Payload, SizeMix, Sweep,
    TemplateConfig, Transport,
};

const FRAMES: u64 = 20_000;
const FLOWS: u32 = 100;
const TAG: u16 = 1;

fn sizes() -> SizeMix {
    SizeMix::single(64).unwrap()
}

fn template() -> FrameTemplate {
    let fixed = |octets| Sweep::fixed(Ipv4Addr::from(octets));
    let config = TemplateConfig {
        sizes: sizes(),
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlans: Vec::new(),
        tunnel: None,
        transport: Transport::Udp,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        flows: FlowList {
            addresses: Addresses::V4(fixed([198, 18, 0, 1]), fixed([198, 19, 0, 1])),
            source_ports: Sweep::rising(1024, FLOWS),
            destination_ports: Sweep::fixed(9),
            count: FLOWS,
        },
        traffic_class: 0,
        hop_limit: 64,
        tag: TAG,
    };
    FrameTemplate::new(&config).unwrap()
}

fn generator() -> Generator {
    let pacing = PacerConfig {
        start: Nanos::ZERO,
        rate: Rate::frames_per_second(1_000_003, 1).unwrap(),
        max_burst: 8,
        stall: StallPolicy::CatchUp { max_frames: 1000 },
        limit: Limit { frames: Some(FRAMES), duration: None },
        stall_threshold: Nanos::from_micros(100),
    };
    let schedule = Schedule::new(&sizes(), Order::Turns, FLOWS, Order::Seeded(1)).unwrap();
    Generator::new(&pacing, &sizes(), schedule).unwrap()
}

#[test]
fn sending_and_accounting_a_frame_allocates_no_memory() {
    let (template, mut generator) = (template(), generator());
    let inspector = Inspector::new(template.tag(), template.stamp_offset(), Check::Whole);
    let mut receiver = Receiver::new(ReceiverConfig::of_flows(FLOWS)).unwrap();
    let mut frame = vec![0; template.largest_bytes()];
    let mut now = Nanos::ZERO;
    let taken = measure(|| loop {
        match generator.poll(now) {
            Decision::Send => {
                let plan = generator.take(now);
                let bytes = template.emit(plan.size, plan.flow, plan.sequence, now.0, &mut frame).unwrap();
                receiver.receive(&inspector, &frame[..bytes], now);
            }
            Decision::Wait(until) => now = until,
            Decision::Done => break,
        }
    });
    assert_eq!(receiver.totals().received_frames, FRAMES);
    assert_eq!(taken.count_total, 0, "{} bytes", taken.bytes_total);
}

#[test]
fn observing_a_frame_allocates_no_memory() {
    let mut bins = Bins::new(Nanos::from_micros(12), 1 << 16).unwrap();
    let mut line = VirtualLine::new(10_000_000_000).unwrap();
    let mut trains = Trains::new(Nanos(500));
    let mut curve = BucketCurve::new(&[1_000_000_000, 8_000_000_000]).unwrap();
    let mut note = |frames: Range<u64>| {
        for frame in frames {
            let (at, bytes) = (Nanos(frame * 1_000 + (frame % 7) * 90), 64);
            bins.push_span(line.push(at, 1, bytes), 1, bytes);
            trains.push(at, 1, bytes);
            curve.push(at, bytes);
        }
    };
    note(0..100);
    let taken = measure(|| note(100..FRAMES));
    assert_eq!(taken.count_total, 0, "{} bytes", taken.bytes_total);
}

#[test]
fn counting_allocator_counts_allocations() {
    assert_eq!(measure(|| drop(vec![0_u8; 100])).count_total, 1);
}
