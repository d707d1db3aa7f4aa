//! Sends like a trial, with a schedule, a stamp in every frame and all statistics, and prints the offered load.
//!
//! `paced INTERFACE [af_xdp|bpf_live|af_packet] [rate=40000000] [seconds=60] [cpu=N[,N...]] [burst=64] [size=64] [catch_up=64]`
//!
//! The output line also contains the lateness of the frames. If several CPUs are given, each has a sending thread and a
//! flow.

use std::error::Error;

use iolab_protocol::histogram::Histogram;
use iolab_protocol::traffic::{
    Flows, FrameParams, FrameRate, Halves, Order, PathChoice, Payload, PortParams, Range, SenderParams,
    StallRule, TrafficRun, Transport,
};
use iolab_traffic::{OpenPort, PortSet};

const SECOND_NS: u64 = 1_000_000_000;

#[allow(clippy::print_stdout)] // a program's result
fn report(line: &str) {
    println!("{line}");
}

fn range<A>(first: A) -> Range<A> {
    Range { first, count: 1, step: 1, every: 1 }
}

fn frames(frame_bytes: u16, flows: u32) -> Result<FrameParams, Box<dyn Error>> {
    Ok(FrameParams {
        sizes: vec![(frame_bytes, 1)],
        source_mac: None,
        destination_mac: "02:00:00:00:00:02".to_owned(),
        vlans: Vec::new(),
        flows: Flows {
            count: flows,
            source_address: range("198.18.0.1".parse()?),
            destination_address: range("198.18.0.2".parse()?),
            source_port: Range { first: 4096, count: flows, step: 1, every: 1 },
            destination_port: range(9),
        },
        transport: Transport::Udp,
        tunnel: None,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        traffic_class: 0,
        hop_limit: 64,
        size_order: Order::Turns,
        flow_order: Order::Turns,
    })
}

/// The port, the sender and the duration on the command line.
fn asked() -> Result<(PortParams, SenderParams, u64), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let interface = words.next().ok_or("which interface? see the head of this file")?;
    let mut path = PathChoice::AfXdp;
    let (mut rate, mut seconds, mut burst, mut size, mut catch_up, mut cpu) =
        (40_000_000, 60, 64, 64, 64, Vec::new());
    for word in words {
        match word.split_once('=') {
            None => path = serde_json::from_value(word.into())?,
            Some(("rate", value)) => rate = value.parse()?,
            Some(("seconds", value)) => seconds = value.parse()?,
            Some(("cpu", value)) => {
                cpu = value.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
            }
            Some(("burst", value)) => burst = value.parse()?,
            Some(("size", value)) => size = value.parse()?,
            Some(("catch_up", value)) => catch_up = value.parse()?,
            Some((key, _)) => return Err(format!("{key}: unknown; see the head of this file").into()),
        }
    }
    let port = PortParams {
        name: "out".to_owned(),
        netns: None,
        interface,
        path,
        halves: Halves::Send,
        send_cpu: cpu.first().copied(),
        further_send_cpus: cpu.iter().skip(1).copied().collect(),
        receive_cpu: None,
        send_priority: None,
        receive_priority: None,
        frame_bytes: None,
        force: false,
    };
    let sender = SenderParams {
        port: "out".to_owned(),
        tag: 1,
        frames: frames(size, u32::try_from(cpu.len().max(1))?)?,
        rate: FrameRate { frames: rate, per_ns: SECOND_NS },
        max_burst: burst,
        stall: StallRule::CatchUp { max_frames: catch_up },
        stall_threshold_ns: 100_000,
        replay: None,
        limit_frames: None,
        gap_frames: None,
    };
    Ok((port, sender, seconds))
}

/// Return a percentile, to the precision of a bucket.
fn below(values: &Histogram, share: u64) -> u64 {
    let mut left = values.count * share / 100;
    let reached = values.buckets.iter().find(|&&(_, count)| {
        let found = count > left;
        left = left.saturating_sub(count);
        found
    });
    reached.map_or(0, |&(value, _)| value)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (port, sender, seconds) = asked()?;
    let said = |error: iolab_protocol::ErrorObject| error.message;
    let set = PortSet::new(vec![OpenPort::open(&port).map_err(said)?]);
    let run = TrafficRun {
        id: "set".to_owned(),
        duration_ns: seconds * SECOND_NS,
        senders: vec![sender],
        receivers: Vec::new(),
        drain: iolab_protocol::traffic::DrainParams::default(),
    };
    let ran = set.run(&run).map_err(said)?;
    let sent = &ran.senders[0];
    #[allow(clippy::cast_precision_loss)] // for reading
    let mpps = sent.offered_frames as f64 / seconds as f64 / 1e6;
    report(&format!(
        "mpps={mpps:.3} offered_frames={} unsent_frames={} refused_frames={} kicks={} stalls={} run_ns={} late_p50_ns={} late_p90_ns={} late_p99_ns={}",
        sent.offered_frames,
        sent.unsent_frames,
        sent.refused_frames,
        sent.kicks,
        sent.stall_count,
        sent.thread.run_ns,
        below(&sent.lateness_ns, 50),
        below(&sent.lateness_ns, 90),
        below(&sent.lateness_ns, 99)
    ));
    Ok(())
}
