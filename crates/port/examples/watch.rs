//! Attaches a watch to an interface for some time, and prints its counts.
//!
//! `watch INTERFACE [bins|flows|idle] [seconds=2]`; `idle` attaches a program that does nothing.

#![allow(clippy::print_stdout)] // the result

use std::error::Error;
use std::time::{Duration, Instant};

use iolab_port::{Hook, KernelWatch, LAG_US, MOST_FLOWS};
use iolab_sys::clock;

/// Window of the flow counters (us).
const FLOW_WINDOW_US: u32 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let interface = words.next().ok_or("which interface? see the head of this file")?;
    let (mut what, mut seconds) = ("bins".to_owned(), 2.0);
    for word in words {
        match word.split_once('=') {
            Some(("seconds", value)) => seconds = value.parse()?,
            Some((key, _)) => return Err(format!("{key}: unknown; see the head of this file").into()),
            None => what = word,
        }
    }
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    if what == "idle" {
        let _idle = KernelWatch::idle(&interface, Hook::Ingress)?;
        println!("ready");
        std::thread::sleep(end - Instant::now()); // the span that is measured
        return Ok(());
    }
    let flows = (what == "flows").then_some((MOST_FLOWS, FLOW_WINDOW_US));
    let mut watch = KernelWatch::open(&interface, Hook::Ingress, flows)?;
    println!("ready");
    let (mut frames, mut bytes) = (0, 0);
    let mut take = |watch: &mut KernelWatch, until_us| {
        let bin = |_, more: u32, length| (frames, bytes) = (frames + u64::from(more), bytes + length);
        watch.read(until_us, bin, |_, _, _, _| {});
    };
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20)); // well within the ring
        take(&mut watch, clock::now_ns() / 1_000 - LAG_US);
    }
    watch.detach();
    std::thread::sleep(Duration::from_millis(2)); // a program that still runs ends
    take(&mut watch, clock::now_ns() / 1_000);
    println!("frames {frames} bytes {bytes} lost {}", watch.beyond().lost_frames);
    Ok(())
}
