//! Waits up to 10 s for stamped frames, checks each frame completely until no more arrive, and prints the counts of
//! frames that it received and of frames that it lost.
//!
//! `sink INTERFACE [native|generic|packet] [seconds=2] [cpu=N] [batch=64]`

use std::error::Error;
use std::time::{Duration, Instant};

use iolab_engine::{Nanos, Receiver, ReceiverConfig};
use iolab_frame::{Check, Inspector};
use iolab_port::{receive, AfPacket, AfXdp, Attach, Direction, RxPort};
use iolab_sys::thread;

/// Time without a frame after which the sender counts as finished.
const IDLE: Duration = Duration::from_millis(150);

#[allow(clippy::print_stdout)] // a program's result
fn report(line: &str) {
    println!("{line}");
}

/// Recognises each frame by its checksums and stamp, and accounts for loss, order, copies and latency.
fn watch<P: RxPort>(mut port: P, seconds: f64, batch: usize) -> Result<(), Box<dyn Error>> {
    let inspector = Inspector::new(1, 42, Check::Whole);
    let mut receiver = Receiver::new(ReceiverConfig::of_flows(1))?;
    let (mut empty, limit) = (0u64, Duration::from_secs_f64(seconds));
    report(&format!("ready path=\"{}\"", port.path()));
    port.wait(10_000)?;
    let (mut first, mut last, begun) = (None, Instant::now(), Instant::now());
    while begun.elapsed() < limit && last.elapsed() < IDLE {
        let mut frames = receive(&mut port, batch)?;
        if frames.is_empty() {
            empty += 1;
            continue;
        }
        first.get_or_insert_with(Instant::now);
        while let Some(frame) = frames.next() {
            receiver.receive(&inspector, frame.bytes, Nanos(frame.stamp_ns));
        }
        last = Instant::now();
    }
    let active = first.map_or(0.0, |first| (last - first).as_secs_f64());
    let totals = receiver.totals();
    #[allow(clippy::cast_precision_loss)] // for reading
    let mpps = totals.received_frames as f64 / active.max(1e-9) / 1e6;
    report(&format!("mpps={mpps:.3} empty_polls={empty} {totals:?} {:?}", port.stats()?));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let interface = words.next().ok_or("which interface? see the head of this file")?;
    let (mut path, mut seconds, mut batch) = ("native".to_owned(), 2.0, 64);
    for word in words {
        match word.split_once('=') {
            None => path = word,
            Some(("seconds", value)) => seconds = value.parse()?,
            Some(("batch", value)) => batch = value.parse()?,
            Some(("cpu", value)) => thread::pin(value.parse()?)?,
            Some((key, _)) => return Err(format!("{key}: unknown; see the head of this file").into()),
        }
    }
    let xdp = AfXdp::new(&interface, Direction::Receive);
    match path.as_str() {
        "native" => watch(AfXdp { attach: Attach::Native, ..xdp }.open_rx()?, seconds, batch),
        "generic" => watch(AfXdp { attach: Attach::Generic, ..xdp }.open_rx()?, seconds, batch),
        "packet" => watch(AfPacket::new(&interface).open_rx()?, seconds, batch),
        other => Err(format!("{other}: no such path; native, generic or packet").into()),
    }
}
