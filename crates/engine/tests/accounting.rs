//! Tests that compare the receiver with a simple model that stores every arrival, and tests with real frames.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use iolab_engine::{EngineError, Nanos, Random, Receiver, ReceiverConfig};
use iolab_frame::{
    Addresses, Check, FlowList, FrameTemplate, Inspection, Inspector, MacAddress, Payload, SizeMix, Stamp,
    Sweep, TemplateConfig, Transport,
};
use proptest::prelude::*;

const FLOWS: u32 = 3;
const WINDOW: u64 = 256;

fn receiver(flow_count: u32, window_frames: u64) -> Receiver {
    let window_frames = u32::try_from(window_frames).expect("a window");
    Receiver::new(ReceiverConfig { flow_count, window_frames, unstamped_flow: None }).expect("a receiver")
}

fn ours(flow: u32, sequence: u64, tx_time_ns: u64) -> Inspection {
    Inspection::Ours(Stamp { tag: 0, flow, sequence, tx_time_ns })
}

/// The counts that a flow should have, computed from all arrivals.
#[derive(Debug, Default, PartialEq, Eq)]
struct Model {
    received: Vec<u64>,
    duplicates: u64,
    reordered: u64,
    too_late: u64,
    extent_max: u64,
}

impl Model {
    fn arrive(&mut self, sequence: u64) {
        let newest = self.received.iter().max().copied();
        match newest {
            Some(newest) if sequence <= newest && newest + 1 - sequence > WINDOW => self.too_late += 1,
            _ if self.received.contains(&sequence) => self.duplicates += 1,
            _ => {
                if let Some(overtaken) = self.received.iter().position(|&earlier| earlier > sequence) {
                    self.reordered += 1;
                    self.extent_max = self.extent_max.max((self.received.len() - overtaken) as u64);
                }
                self.received.push(sequence);
            }
        }
    }
}

/// Generate sequence numbers around a slowly increasing one, so that all kinds of arrivals occur.
fn arrivals() -> impl Strategy<Value = Vec<(u32, u64)>> {
    let step = (0..FLOWS, prop_oneof![8 => 0..3u64, 2 => 3..20u64, 1 => 200..300u64], 0..2 * WINDOW, 0..10u8);
    proptest::collection::vec(step, 1..300).prop_map(|steps| {
        let mut next: HashMap<u32, u64> = HashMap::new();
        let arrival = |(flow, jump, back, kind): (u32, u64, u64, u8)| {
            let next = next.entry(flow).or_default();
            if kind < 3 {
                return (flow, next.saturating_sub(if kind == 0 { back } else { back % 12 }));
            }
            *next += 1 + jump;
            (flow, *next)
        };
        steps.into_iter().map(arrival).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn receiver_counts_every_arrival_like_the_model(arrivals in arrivals()) {
        let mut receiver = receiver(FLOWS, WINDOW);
        let mut models: Vec<Model> = (0..FLOWS).map(|_| Model::default()).collect();
        for &(flow, sequence) in &arrivals {
            receiver.account(ours(flow, sequence, 0), 60, Nanos(1));
            models[flow as usize].arrive(sequence);
        }
        let report = receiver.finish(&[1_000_000; 3]).expect("as many flows");
        for (flow, model) in report.flows.iter().zip(&models) {
            prop_assert_eq!(flow.received_frames, model.received.len() as u64);
            prop_assert_eq!(flow.lost_frames, 1_000_000 - flow.received_frames);
            prop_assert_eq!(flow.duplicate_frames, model.duplicates);
            prop_assert_eq!(flow.reordered_frames, model.reordered);
            prop_assert_eq!(flow.too_late_frames, model.too_late);
            // The extent is exact while its sequence gap is among the newest 16, and otherwise a lower bound.
            prop_assert!(flow.reorder_extent_max_frames <= model.extent_max);
        }
        prop_assert_eq!(report.totals.arrived_frames(), arrivals.len() as u64);
    }

    #[test]
    fn arbitrary_stamps_cause_no_panic(stamps in proptest::collection::vec(any::<(u32, u64, u64, u64)>(), 1..50)) {
        let mut receiver = receiver(FLOWS, WINDOW);
        for (flow, sequence, sent, now) in stamps {
            receiver.account(ours(flow % 4, sequence, sent), 60, Nanos(now));
        }
        prop_assert!(receiver.finish(&[0; 3]).is_ok());
    }
}

#[test]
fn frames_are_counted_in_the_slice_of_their_transmit_time_across_clock_wraps() {
    for begin_ns in [5_000, (1 << 40) - 2_000, 77 << 40] {
        let mut receiver = receiver(1, WINDOW);
        receiver.count_parts(Nanos(begin_ns), Nanos(100_000));
        for (sequence, sent_at) in (0..).zip([0, 999, 1_000, 50_500, 99_999]) {
            let in_stamp = (begin_ns + sent_at) & ((1 << 40) - 1); // as on the wire
            receiver.account(ours(0, sequence, in_stamp), 60, Nanos(begin_ns + sent_at + 7_000));
        }
        let report = receiver.finish(&[5]).expect("one flow");
        let slices = report.slices;
        assert_eq!((slices[0], slices[1], slices[50], slices[99]), (2, 1, 1, 1), "{begin_ns}");
        let arrivals = report.arrivals;
        assert_eq!(
            (arrivals.frames[7], arrivals.frames[57], arrivals.after_end_frames),
            (2, 1, 1),
            "{begin_ns}"
        );
        assert_eq!(arrivals.least_latency_ns[8], Some(7_000), "{begin_ns}");
    }
}

#[test]
fn default_window_reaches_65536_frames_back() {
    let mut receiver = Receiver::new(ReceiverConfig::of_flows(10_000)).expect("a receiver");
    for sequence in [65_536, 1, 1, 0] {
        receiver.account(ours(9_999, sequence, 0), 60, Nanos(0));
    }
    let totals = receiver.totals();
    assert_eq!((totals.received_frames, totals.reordered_frames), (2, 1));
    assert_eq!((totals.duplicate_frames, totals.too_late_frames), (1, 1));
}

#[test]
fn more_frames_than_were_sent_are_a_surplus_and_not_a_negative_loss() {
    let mut receiver = receiver(1, WINDOW);
    (0..10).for_each(|sequence| receiver.account(ours(0, sequence, 0), 60, Nanos(0)));
    let totals = receiver.finish(&[8]).expect("one flow").totals;
    assert_eq!((totals.lost_frames, totals.surplus_frames), (0, 2));
}

#[test]
fn frames_refused_by_the_interface_are_not_lost() {
    let mut receiver = receiver(1, WINDOW);
    (0..7).for_each(|sequence| receiver.account(ours(0, sequence, 0), 60, Nanos(0)));
    let totals = receiver.finish(&[10]).expect("one flow").totals;
    let offered = totals.without_refused(2);
    assert_eq!((totals.lost_frames, offered.lost_frames, offered.sent_frames), (3, 1, 8));
    assert_eq!(
        totals.without_refused(4).surplus_frames,
        1,
        "more was refused than is missing: a count is wrong"
    );
}

#[test]
fn negative_latency_is_counted() {
    let mut receiver = receiver(1, WINDOW);
    receiver.account(ours(0, 0, 1_000), 60, Nanos(999));
    receiver.account(ours(0, 1, 1_000), 60, Nanos(1_000));
    let report = receiver.finish(&[2]).expect("one flow");
    assert_eq!((report.totals.negative_latency_frames, report.latency.count()), (1, 1));
}

#[test]
fn real_frames_are_classified_and_the_balance_adds_up() {
    let template = FrameTemplate::new(&config()).expect("a template");
    let inspector = Inspector::new(7, template.stamp_offset(), Check::Whole);
    let mut receiver = receiver(500, 1024);
    let mut random = Random::new(6);
    let mut sent = vec![0u64; 500];
    let (mut lost, mut damaged, mut foreign, mut copies) = (0, 0, 0, 0);
    for i in 0..20_000u64 {
        let flow = (i % 500) as u32;
        let mut frame = [0; 124];
        let sequence = sent[flow as usize];
        template.emit(0, flow, sequence, i * 1_000, &mut frame).expect("a frame");
        sent[flow as usize] += 1;
        let now = Nanos(i * 1_000 + 777);
        match random.below(20) {
            0 => {
                lost += 1;
                continue;
            }
            1 => {
                // After the Ethernet addresses every byte is covered by a check.
                frame[12 + random.below(112) as usize] ^= 1 << random.below(8);
                damaged += 1;
            }
            2 => {
                receiver.receive(&inspector, &[0xff; 60], now);
                foreign += 1;
            }
            3 => {
                receiver.receive(&inspector, &frame, now);
                copies += 1;
            }
            _ => {}
        }
        receiver.receive(&inspector, &frame, now);
    }
    let report = receiver.finish(&sent).expect("as many flows");
    assert_eq!(report.stray.corrupted_frames(), damaged);
    assert_eq!(report.stray.foreign_frames, foreign);
    assert_eq!(report.totals.lost_frames, lost + damaged);
    assert_eq!(report.totals.duplicate_frames, copies);
    assert_eq!((report.latency.min(), report.latency.max()), (Some(777), Some(777)));
    assert_eq!(report.arrived_frames, 20_000 - lost + foreign + copies);
    assert_eq!(report.arrived_bytes, 128 * report.totals.arrived_frames());
}

#[test]
fn frames_of_other_trials_and_unknown_flows_are_strays() {
    let template = FrameTemplate::new(&config()).expect("a template");
    let mut frame = [0; 124];
    template.emit(0, 499, 0, 0, &mut frame).expect("a frame");
    let mut receiver = receiver(499, 1024);
    receiver.receive(&Inspector::new(8, template.stamp_offset(), Check::Whole), &frame, Nanos(0));
    receiver.receive(&Inspector::new(7, template.stamp_offset(), Check::Whole), &frame, Nanos(0));
    let stray = receiver.stray();
    assert_eq!((stray.other_tag_frames, stray.unknown_flow_frames, stray.frames()), (1, 1, 2));
}

#[test]
fn report_is_serialized_as_json_with_units() {
    let mut receiver = receiver(1, WINDOW);
    receiver.account(ours(0, 1, 0), 60, Nanos(5));
    let report = serde_json::to_value(receiver.finish(&[2]).expect("one flow")).expect("JSON");
    assert_eq!(report["totals"]["lost_frames"], 1);
    assert_eq!(report["latency"]["buckets"], serde_json::json!([[5, 1]]));
    assert_eq!(report["flows"][0]["latency_min_ns"], 5);
}

/// Frames without a stamp are counted, multicast frames are foreign, and no latency is reported for them.
#[test]
fn frames_without_a_stamp_are_counted_without_latency() {
    let all = ReceiverConfig { unstamped_flow: Some(0), ..ReceiverConfig::of_flows(1) };
    let mut receiver = Receiver::new(all).expect("a receiver");
    receiver.count_parts(Nanos(0), Nanos(1000));
    let inspector = Inspector::new(0x0001, 42, Check::Whole);
    let bare = TemplateConfig {
        sizes: SizeMix::single(64).expect("a size"),
        transport: Transport::Tcp,
        may_go_unstamped: true,
        ..config()
    };
    let template = FrameTemplate::new(&bare).expect("a template");
    let mut frame = [0; 60];
    // The payload is 0, 1, 2 ...: it begins as a stamp with that tag would.
    template.emit(0, 3, 0, 0, &mut frame).expect("a frame");
    for _ in 0..7 {
        receiver.receive(&inspector, &frame, Nanos(5));
    }
    receiver.receive(&inspector, &[0xff; 60], Nanos(6));
    let report = receiver.finish(&[9]).expect("one flow");
    assert_eq!((report.totals.received_frames, report.totals.lost_frames), (7, 2));
    assert_eq!((report.stray.frames(), report.latency.count(), report.flows[0].latency_min_ns), (1, 0, None));
    assert_eq!(report.arrivals.frames.iter().sum::<u64>(), 7);
    assert!(report.arrivals.least_latency_ns.iter().all(Option::is_none));
}

#[test]
fn receiver_configuration_beyond_the_limits_is_refused() {
    let refused = |flow_count, window_frames| {
        Receiver::new(ReceiverConfig { flow_count, window_frames, unstamped_flow: None })
            .map(|_| ())
            .expect_err("refused")
    };
    assert!(matches!(refused(0, 64), EngineError::FlowCount { .. }));
    assert!(matches!(refused((1 << 20) + 1, 64), EngineError::FlowCount { .. }));
    assert!(matches!(refused(1, 65_000), EngineError::Window { .. }));
    assert!(matches!(refused(65_536, 1 << 17), EngineError::Memory { .. }));
    assert!(receiver(2, 64).finish(&[1]).is_err());
}

fn config() -> TemplateConfig {
    let [source, destination] = [[198, 18, 0, 1], [198, 19, 0, 1]].map(Ipv4Addr::from);
    TemplateConfig {
        sizes: SizeMix::single(128).expect("a size"),
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlans: Vec::new(),
        tunnel: None,
        transport: Transport::Udp,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        flows: FlowList {
            addresses: Addresses::V4(Sweep::fixed(source), Sweep::rising(destination, 500)),
            source_ports: Sweep::fixed(1024),
            destination_ports: Sweep::fixed(9),
            count: 500,
        },
        traffic_class: 0,
        hop_limit: 64,
        tag: 7,
    }
}
