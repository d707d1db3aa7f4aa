//! Attaches an XDP device (a sink, a reflector, a forwarder, a token bucket or a lossy line) to an interface until
//! standard input closes, then prints its counters.
//!
//! `device INTERFACE drop|pass|reflect|to=INDEX [bucket=PPS,BURST | every=N | random=PER_BILLION,SEED] [generic]`

use std::error::Error;
use std::io::Read;

use iolab_port::{Attach, Device, Rule, Then};

fn rule(key: &str, value: &str) -> Result<Rule, Box<dyn Error>> {
    let (first, second) = value.split_once(',').unwrap_or((value, "1"));
    match key {
        "bucket" => Ok(Rule::TokenBucket { rate_pps: first.parse()?, burst_frames: second.parse()? }),
        "every" => Ok(Rule::LoseEvery { frames: first.parse()? }),
        "random" => Ok(Rule::LoseRandomly { frames_per_billion: first.parse()?, seed: second.parse()? }),
        other => Err(format!("{other}: unknown; see the head of this file").into()),
    }
}

#[allow(clippy::print_stdout)] // a program's result
fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let interface = words.next().ok_or("which interface? see the head of this file")?;
    let (mut limit, mut then, mut attach) = (Rule::All, Then::Drop, Attach::Native);
    for word in words {
        match (word.as_str(), word.split_once('=')) {
            ("drop", _) => then = Then::Drop,
            ("pass", _) => then = Then::Pass,
            ("reflect", _) => then = Then::Reflect,
            ("generic", _) => attach = Attach::Generic,
            (_, Some(("to", index))) => then = Then::Redirect { index: index.parse()?, addresses: None },
            (_, Some((key, value))) => limit = rule(key, value)?,
            _ => return Err(format!("{word}: unknown; see the head of this file").into()),
        }
    }
    let device = Device::attach(&interface, limit, then, attach)?;
    println!("ready mode={} instructions={}", device.mode().0, device.instructions());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:?}", device.stats()?);
    Ok(())
}
