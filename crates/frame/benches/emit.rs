//! Measures the time per frame for emission and inspection on this machine: `cargo bench -p iolab-frame`.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use iolab_frame::{
    Addresses, Check, FlowList, FrameTemplate, Inspector, MacAddress, Payload, SizeMix, Sweep,
    TemplateConfig, Transport,
};

const FRAMES: u64 = 2_000_000;
const ROUNDS: usize = 5;

fn main() {
    for (frame_bytes, flows) in [(64, 1), (64, 10_000), (1518, 10_000)] {
        let template = FrameTemplate::new(&config(frame_bytes, flows)).expect("a template");
        let mut buffer = vec![0; template.largest_bytes()];
        let flow = |sequence: u64| u32::try_from(sequence % u64::from(flows)).expect("few flows");
        report(&format!("emit, {frame_bytes} B, {flows} flows"), |i| {
            black_box(template.emit(0, flow(i), i, i * 500, &mut buffer).is_ok());
        });
        template.prime(&mut buffer).expect("room");
        report(&format!("emit primed, {frame_bytes} B, {flows} flows"), |i| {
            black_box(template.emit_primed(0, flow(i), i, i * 500, &mut buffer).is_ok());
        });
        for check in [Check::Whole, Check::HeadersAndStamp] {
            let inspector = Inspector::new(1, template.stamp_offset(), check);
            report(&format!("inspect {check:?}, {frame_bytes} B"), |_| {
                black_box(inspector.inspect(black_box(&buffer)));
            });
        }
    }
}

/// Print the time per call of the fastest round (ns).
fn report(what: &str, mut frame: impl FnMut(u64)) {
    let round = |frame: &mut dyn FnMut(u64)| {
        let begin = Instant::now();
        (0..FRAMES).for_each(frame);
        begin.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round(&mut frame)).min().expect("a round");
    let picoseconds = fastest.as_nanos() * 1000 / u128::from(FRAMES);
    let line = format!("{what}: {}.{:01} ns\n", picoseconds / 1000, picoseconds % 1000 / 100);
    std::io::stdout().write_all(line.as_bytes()).expect("stdout");
}

fn config(frame_bytes: u16, count: u32) -> TemplateConfig {
    let [source, destination] = [[198, 18, 0, 1], [198, 19, 0, 1]].map(std::net::Ipv4Addr::from);
    TemplateConfig {
        sizes: SizeMix::single(frame_bytes).expect("a size"),
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlans: Vec::new(),
        tunnel: None,
        transport: Transport::Udp,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        flows: FlowList {
            addresses: Addresses::V4(Sweep::fixed(source), Sweep::fixed(destination)),
            source_ports: Sweep::rising(1024, count),
            destination_ports: Sweep::fixed(9),
            count,
        },
        traffic_class: 0,
        hop_limit: 64,
        tag: 1,
    }
}
