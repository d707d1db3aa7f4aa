//! Sends numbered, time-stamped frames as fast as a port takes them, or at a rate, and says what the port and the
//! interface counted. The rate is kept on average only; exact pacing is the engine's.
//!
//! `blast INTERFACE [xdp|ring|messages|bare] [size=60] [frames=N] [seconds=2] [rate=PPS] [cpu=N] [batch=64]`

use std::error::Error;
use std::time::{Duration, Instant};

use iolab_port::{clock, reserve, AfPacket, AfXdp, Direction, Interface, TxPort};

/// What the command line asks for.
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
        batch: 64,
        slots: 0,
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
            Some((key, _)) => return Err(format!("{key}: unknown; see the head of this file").into()),
        }
    }
    Ok(options)
}

/// Ethernet, IPv4 and UDP headers of a frame to 198.18.0.2, port 9, no checksum in UDP.
fn template(options: &Options, source: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0; options.frame_bytes];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&source);
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    frame[16..18].copy_from_slice(&length(options.frame_bytes - 14));
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
    let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&length(usize::from(!u16::try_from(folded & 0xffff).unwrap_or(0))));
    frame[34..38].copy_from_slice(&[0x10, 0, 0, 9]);
    frame[38..40].copy_from_slice(&length(options.frame_bytes - 34));
    frame
}

/// Every frame is written as a whole and gets its own number and time: what a measuring sender has to do.
fn blast<P: TxPort>(mut port: P, options: &Options, stamped: bool) -> Result<(), Box<dyn Error>> {
    let interface = Interface::find(&options.interface)?;
    let frame = template(options, interface.address);
    let (started, mut sequence) = (Instant::now(), 0u64);
    let limit = Duration::from_secs_f64(options.seconds);
    while sequence < options.frames && started.elapsed() < limit {
        let mut due = usize::try_from(options.frames - sequence)?.min(options.batch);
        if options.rate_pps > 0 {
            let elapsed_ns = u64::try_from(started.elapsed().as_nanos())?;
            due = due.min(usize::try_from((options.rate_pps * elapsed_ns / 1_000_000_000).saturating_sub(sequence))?);
        }
        let mut batch = reserve(&mut port, due);
        let granted = batch.granted();
        for index in 0..granted {
            let bytes = batch.frame(index, frame.len());
            if stamped || sequence < 4096 {
                bytes.copy_from_slice(&frame);
            }
            if stamped {
                bytes[42..50].copy_from_slice(&sequence.to_be_bytes());
                bytes[50..58].copy_from_slice(&clock::now_ns().to_be_bytes());
            }
            sequence += 1;
        }
        batch.commit(granted);
        port.flush()?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let drained = Instant::now();
    while port.stats()?.pending_frames > 0 && drained.elapsed() < Duration::from_millis(200) {
        port.flush()?;
    }
    let (stats, after) = (port.stats()?, interface.counters_now()?);
    let (sent, dropped) = (after.tx_frames - interface.counters.tx_frames, after.tx_dropped - interface.counters.tx_dropped);
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
        clock::pin_thread(cpu)?;
    }
    let frame_bytes = options.frame_bytes;
    let mut packet = AfPacket { frame_bytes, ..AfPacket::new(&options.interface) };
    let mut xdp = AfXdp { frame_bytes, ..AfXdp::new(&options.interface, Direction::Send) };
    if options.slots > 0 {
        (packet.ring_frames, xdp.ring_frames) = (options.slots, options.slots);
    }
    match options.path.as_str() {
        "xdp" => blast(xdp.open_tx()?, &options, true),
        "bare" => blast(xdp.open_tx()?, &options, false),
        "ring" => blast(packet.open_tx_ring()?, &options, true),
        "messages" => blast(packet.open_tx()?, &options, true),
        other => Err(format!("{other}: no such path; xdp, bare, ring or messages").into()),
    }
}
