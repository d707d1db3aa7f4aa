//! Sends numbered, time-stamped frames as fast as a port accepts them, or at a rate, and prints the counters of the
//! port and of the interface. The rate is exact on average only; the engine does exact pacing.
//!
//! `blast INTERFACE [xdp|live|messages|bare] [size=60] [frames=N] [seconds=2] [rate=PPS] [cpu=N] [batch=256] [slots=N]
//! [burst=1]`
//!
//! `burst` frames share one reading of the clock, as those that are due together do in the engine (1 to 64).

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use iolab_frame::{
    FlowList, FrameTemplate, MacAddress, Payload, SizeMix, TemplateConfig, Transport, FCS_BYTES,
};
use iolab_port::{reserve, AfPacket, AfXdp, BpfLive, Direction, Interface, TxPort};
use iolab_sys::clock::StampClock;
use iolab_sys::thread;

/// The options on the command line.
struct Options {
    interface: String,
    path: String,
    frame_bytes: usize,
    frames: u64,
    seconds: f64,
    rate_pps: u64,
    cpu: Option<usize>,
    batch: usize,
    slots: u32,
    burst: usize,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let interface = words.next().ok_or("which interface? see the head of this file")?;
    let mut options = Options {
        interface,
        path: "xdp".to_owned(),
        frame_bytes: 60,
        frames: u64::MAX,
        seconds: 2.0,
        rate_pps: 0,
        cpu: None,
        batch: 256,
        slots: 0,
        burst: 1,
    };
    for word in words {
        match word.split_once('=') {
            None => options.path = word,
            Some(("size", value)) => options.frame_bytes = value.parse()?,
            Some(("frames", value)) => options.frames = value.parse()?,
            Some(("seconds", value)) => options.seconds = value.parse()?,
            Some(("rate", value)) => options.rate_pps = value.parse()?,
            Some(("cpu", value)) => options.cpu = Some(value.parse()?),
            Some(("batch", value)) => options.batch = value.parse()?,
            Some(("slots", value)) => options.slots = value.parse()?,
            Some(("burst", value)) => options.burst = value.parse::<usize>()?.max(1),
            Some((key, _)) => return Err(format!("{key}: unknown; see the head of this file").into()),
        }
    }
    Ok(options)
}

/// Return the template of one flow, from 198.18.0.1 to 198.18.0.2, port 9.
fn template(options: &Options, source: [u8; 6]) -> Result<FrameTemplate, Box<dyn Error>> {
    let (from, to) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2));
    let config = TemplateConfig {
        sizes: SizeMix::single(u16::try_from(options.frame_bytes)? + FCS_BYTES)?,
        source_mac: MacAddress(source),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlans: Vec::new(),
        tunnel: None,
        transport: Transport::Udp,
        payload: Payload::Incrementing,
        may_go_unstamped: false,
        flows: FlowList::one_v4((from, 4096), (to, 9)),
        traffic_class: 0,
        hop_limit: 64,
        tag: 1,
    };
    Ok(FrameTemplate::new(&config)?)
}

/// Writes headers, number, time and CRC of every frame, as a measuring sender must; with `bare`, sends the initial
/// content of the buffers unchanged.
fn blast<P: TxPort>(mut port: P, options: &Options, stamped: bool) -> Result<(), Box<dyn Error>> {
    let interface = Interface::find(&options.interface)?;
    let template = template(options, interface.address)?;
    let mut refused = None;
    port.prime(&mut |bytes| refused = refused.take().or_else(|| template.emit(0, 0, 0, 0, bytes).err()));
    refused.map_or(Ok(()), Err)?;
    let mut clock = StampClock::new();
    let (started, mut sequence) = (Instant::now(), 0u64);
    let limit = Duration::from_secs_f64(options.seconds);
    while sequence < options.frames && started.elapsed() < limit {
        let mut due = usize::try_from(options.frames - sequence)?.min(options.batch);
        if options.rate_pps > 0 {
            let elapsed_ns = u64::try_from(started.elapsed().as_nanos())?;
            due = due.min(usize::try_from(
                (options.rate_pps * elapsed_ns / 1_000_000_000).saturating_sub(sequence),
            )?);
        }
        let mut batch = reserve(&mut port, due);
        let granted = batch.granted();
        for first in (0..granted).step_by(options.burst) {
            let tx_time_ns = if stamped { clock.now_ns() } else { 0 };
            for index in first..granted.min(first + options.burst) {
                let bytes = batch.frame(index, options.frame_bytes);
                if stamped {
                    template.emit_primed(0, 0, sequence, tx_time_ns, bytes)?;
                }
                sequence += 1;
            }
        }
        batch.commit(granted);
        port.flush()?;
    }
    conclude(&mut port, &interface, started.elapsed().as_secs_f64())
}

/// Waits until no frame is pending, and prints the counts of accepted, refused and lost frames.
fn conclude<P: TxPort>(port: &mut P, interface: &Interface, seconds: f64) -> Result<(), Box<dyn Error>> {
    let drained = Instant::now();
    while port.stats()?.pending_frames > 0 && drained.elapsed() < Duration::from_millis(200) {
        port.flush()?;
    }
    let (stats, before, after) = (port.stats()?, interface.counters, interface.counters_now()?);
    let (sent, dropped) = (after.tx_frames - before.tx_frames, after.tx_dropped - before.tx_dropped);
    #[allow(clippy::cast_precision_loss)] // for reading
    let mpps = sent as f64 / seconds / 1e6;
    report(&format!(
        "path=\"{}\" seconds={seconds:.3} interface_frames={sent} interface_dropped={dropped} mpps={mpps:.3} {stats:?}",
        port.path()
    ));
    Ok(())
}

#[allow(clippy::print_stdout)] // a program's result
fn report(line: &str) {
    println!("{line}");
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    if let Some(cpu) = options.cpu {
        thread::pin(cpu)?;
    }
    let frame_bytes = options.frame_bytes;
    let mut packet = AfPacket { frame_bytes, ..AfPacket::new(&options.interface) };
    let mut xdp = AfXdp { frame_bytes, ..AfXdp::new(&options.interface, Direction::Send) };
    if options.slots > 0 {
        (packet.ring_frames, xdp.send_frames) = (options.slots, options.slots);
    }
    match options.path.as_str() {
        "xdp" => blast(xdp.open_tx()?, &options, true),
        "live" => {
            let usual = BpfLive::new(&options.interface);
            blast(BpfLive { frame_bytes, ..usual }.open_tx()?, &options, true)
        }
        "bare" => blast(xdp.open_tx()?, &options, false),
        "messages" => blast(packet.open_tx()?, &options, true),
        other => Err(format!("{other}: no such path; xdp, live, bare or messages").into()),
    }
}
