//! Simulates one direction of an emulated link in virtual time: evenly spaced frames pass its stages, with random draws
//! from the given seeds.
//!
//! Each line of the input is a JSON object with `impairments` (as in `wire.change`), `seed`, `way` (0 or 1), `frames`
//! and `every_ns`. Each line of the output has the results: `lost_frames`, `stay_mean_ns`, and `stages`, the seed of
//! each stage. `benches/truth/wire_draws.py` drives it.

use std::io::{BufRead, Write};

use iolab_engine::impairment::{Outcome, Passing};
use iolab_engine::Nanos;
use iolab_protocol::impairment::Impairment;
use iolab_traffic::{chain, seed_of_way, stage_seeds};
use serde::Deserialize;

#[derive(Deserialize)]
struct Asked {
    impairments: Vec<Impairment>,
    seed: u64,
    way: u64,
    frames: u64,
    every_ns: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked: Asked = serde_json::from_str(&line?)?;
        let seed = seed_of_way(asked.seed, asked.way);
        let mut stages = chain(&asked.impairments, seed, Nanos::ZERO).map_err(|error| error.message)?;
        let (mut lost, mut stay_ns) = (0_u64, 0_u64);
        for number in 0..asked.frames {
            let at = Nanos(number * asked.every_ns);
            stages.push(Passing::new(number, 1500, at));
            for outcome in stages.decided() {
                match outcome {
                    Outcome::Leaves(frame) => stay_ns += frame.at.since(Nanos(frame.id * asked.every_ns)).0,
                    Outcome::Lost(..) => lost += 1,
                }
            }
        }
        let kinds: Vec<_> = asked.impairments.iter().map(Impairment::kind).collect();
        let left = (asked.frames - lost).max(1);
        let told = serde_json::json!({
            "lost_frames": lost, "stay_mean_ns": stay_ns as f64 / left as f64, "stages": stage_seeds(&kinds, seed),
        });
        writeln!(out, "{told}")?;
    }
    Ok(())
}
