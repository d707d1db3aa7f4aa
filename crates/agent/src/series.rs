//! Answer `sample.read`, `sample.start` and `sample.stop`. What the counters mean is the samplers' business.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iolab_protocol::calls::{SampleRead, SampleStart, SampleStop};
use iolab_protocol::observations::{Observation, Sampler};
use iolab_protocol::results::{Done, Reading, SamplerFailure, Series};
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject};
use iolab_samplers::observe;
use serde_json::value::RawValue;

use crate::clock::now_ns;
use crate::faults::{not_sampled, refused, Answer};
use crate::host::Host;
use crate::netns;
use crate::sync::lock;

/// Answer `sample.read`.
pub fn read(host: &Host, params: &SampleRead) -> Answer<Reading> {
    let outcomes = read_all(host, &params.samplers, &params.netns).into_iter();
    let observations = outcomes.map(|(_, _, outcome)| outcome).collect::<Answer<_>>()?;
    Ok(Reading { observations, failures: Vec::new() })
}

type Outcome = (Sampler, Option<String>, Answer<Observation>);

/// Read each sampler, those of a namespace in every namespace asked for.
fn read_all(host: &Host, samplers: &[Sampler], netns: &[Option<String>]) -> Vec<Outcome> {
    let supervised = host.processes.supervised();
    let observe_in = |sampler, netns: Option<&str>| {
        observe(sampler, netns, &supervised, now_ns).map_err(|error| not_sampled(netns, &error))
    };
    let of_host = samplers.iter().filter(|sampler| !sampler.is_per_netns());
    let mut outcomes: Vec<Outcome> =
        of_host.map(|&sampler| (sampler, None, observe_in(sampler, None))).collect();
    let inside: Vec<Sampler> = samplers.iter().copied().filter(|sampler| sampler.is_per_netns()).collect();
    if inside.is_empty() {
        return outcomes;
    }
    for name in netns {
        let observed = netns::within(name.as_deref(), || {
            Ok(inside.iter().map(|&sampler| observe_in(sampler, name.as_deref())).collect::<Vec<_>>())
        });
        match observed {
            Ok(observed) => {
                let named = inside.iter().zip(observed).map(|(&sampler, each)| (sampler, name.clone(), each));
                outcomes.extend(named);
            }
            Err(error) => {
                outcomes.extend(inside.iter().map(|&sampler| (sampler, name.clone(), Err(error.clone()))))
            }
        }
    }
    outcomes
}

/// The series that are being read.
#[derive(Default)]
pub struct SeriesTable {
    table: Mutex<HashMap<String, Recording>>,
}

struct Recording {
    stop: Sender<()>,
    thread: JoinHandle<Kept>,
}

/// Answer `sample.start`.
pub fn start(host: &Arc<Host>, params: SampleStart) -> Answer<Done> {
    if params.period_ms < SHORTEST_PERIOD_MS {
        return Err(ErrorObject::params(
            format!("'period_ms' is at least {SHORTEST_PERIOD_MS}"),
            params.period_ms,
        ));
    }
    let mut table = lock(&host.series.table);
    if table.contains_key(&params.series) {
        return Err(ErrorObject::params("a series of that name is being read; stop it first", params.series));
    }
    if table.len() >= MOST_SERIES {
        let data = ErrorData { limit: Some(MOST_SERIES as u64), ..ErrorData::default() };
        return Err(ErrorObject::new(
            ErrorCode::Busy,
            format!("{MOST_SERIES} series are being read already"),
        )
        .with(data));
    }
    // What cannot be read at all is refused now and not found out at the end.
    read(host, &SampleRead { samplers: params.samplers.clone(), netns: params.netns.clone() })?;
    let (stop, stopped) = mpsc::channel();
    let (name, reader) = (params.series.clone(), Arc::clone(host));
    let thread = thread::Builder::new().name(format!("series {name}")).spawn(move || {
        let mut kept = Kept::new(params.keep, SERIES_LIMIT_BYTES);
        let period = Duration::from_millis(params.period_ms);
        let mut next = Instant::now();
        loop {
            kept.push(encode_reading(&reader, &params));
            // On the schedule of the start; readings that would be late are left out.
            let late_periods = next.elapsed().as_nanos() / period.as_nanos();
            next += period * u32::try_from(late_periods + 1).unwrap_or(u32::MAX);
            match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return kept,
            }
        }
    });
    let thread = thread.map_err(|error| refused("starting a thread in", "the agent", &error))?;
    table.insert(name, Recording { stop, thread });
    Ok(Done {})
}

/// Answer `sample.stop`.
pub fn stop(host: &Host, params: &SampleStop) -> Answer<Series<Box<RawValue>>> {
    let recording = lock(&host.series.table).remove(&params.series);
    let name = &params.series;
    let recording = recording
        .ok_or_else(|| ErrorObject::unknown(format!("there is no series '{name}'"), name.clone()))?;
    let _ = recording.stop.send(());
    let kept = recording.thread.join();
    let kept =
        kept.map_err(|_| ErrorObject::new(ErrorCode::Internal, format!("series '{name}' was lost")))?;
    Ok(Series { dropped: kept.dropped, readings: kept.readings.into() })
}

fn encode_reading(host: &Host, params: &SampleStart) -> Option<Box<RawValue>> {
    let (mut observations, mut failures) = (Vec::new(), Vec::new());
    for (sampler, netns, outcome) in read_all(host, &params.samplers, &params.netns) {
        match outcome {
            Ok(observation) => observations.push(observation),
            Err(error) => {
                failures.push(SamplerFailure {
                    sampler: sampler.name().to_owned(),
                    netns,
                    reason: error.message,
                });
            }
        }
    }
    serde_json::value::to_raw_value(&Reading { observations, failures }).ok()
}

/// The newest readings, bounded in number and size.
struct Kept {
    keep: usize,
    limit_bytes: usize,
    size_bytes: usize,
    readings: VecDeque<Box<RawValue>>,
    dropped: u64,
}

impl Kept {
    fn new(keep: usize, limit_bytes: usize) -> Self {
        Self { keep, limit_bytes, size_bytes: 0, readings: VecDeque::new(), dropped: 0 }
    }

    fn push(&mut self, reading: Option<Box<RawValue>>) {
        let Some(reading) = reading else {
            self.dropped += 1;
            return;
        };
        self.size_bytes += reading.get().len() + 1;
        self.readings.push_back(reading);
        while self.readings.len() > self.keep || self.size_bytes > self.limit_bytes {
            let Some(oldest) = self.readings.pop_front() else { return };
            self.size_bytes -= oldest.get().len() + 1;
            self.dropped += 1;
        }
    }
}

const SHORTEST_PERIOD_MS: u64 = 10;
const MOST_SERIES: usize = 64;
/// A series is answered in one line.
const SERIES_LIMIT_BYTES: usize = 15 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_after(keep: usize, limit_bytes: usize, readings: &[&str]) -> (Vec<String>, u64) {
        let mut kept = Kept::new(keep, limit_bytes);
        for reading in readings {
            kept.push(RawValue::from_string((*reading).to_owned()).ok());
        }
        (kept.readings.iter().map(|each| each.get().to_owned()).collect(), kept.dropped)
    }

    #[test]
    fn the_oldest_readings_go_when_there_are_too_many() {
        assert_eq!(kept_after(2, 100, &["1", "2", "3"]), (vec!["2".to_owned(), "3".to_owned()], 1));
    }

    #[test]
    fn the_oldest_readings_go_when_they_are_too_large() {
        assert_eq!(kept_after(9, 7, &["111", "222", "33"]), (vec!["222".to_owned(), "33".to_owned()], 1));
        assert_eq!(kept_after(9, 2, &["111"]), (vec![], 1));
    }
}
