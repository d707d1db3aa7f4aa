//! Verbs `sample.read`, `sample.start` and `sample.stop`. The samplers define the meaning of the counters.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iolab_protocol::calls::{SampleRead, SampleStart, SampleStop};
use iolab_protocol::results::{Done, Reading, SamplerFailure, Series};
use iolab_protocol::{ErrorCode, ErrorObject};
use serde_json::value::RawValue;

use crate::host::recording::{Kept, Recording};
use crate::host::Host;
use crate::kernel::faults::{refused, Answer};
use crate::kernel::netns;
use crate::measuring::readers::{Outcome, Readers};
use crate::verbs::{verb, Verb};

/// Return the verbs for readings.
pub fn verbs() -> [Verb; 3] {
    [
        verb("sample.read", |host, params| read(host, &params)),
        verb("sample.start", start),
        verb("sample.stop", |host, params| stop(host, &params)),
    ]
}

/// Answer `sample.read`.
pub fn read(host: &Host, params: &SampleRead) -> Answer<Reading> {
    let outcomes = netns::on_thread(|| Readers::new(&params.samplers, &params.netns).read(host))?;
    let observations = outcomes.into_iter().map(|(_, _, outcome)| outcome).collect::<Answer<_>>()?;
    Ok(Reading { observations, failures: Vec::new() })
}

/// Answer `sample.start`.
pub fn start(host: &Arc<Host>, params: SampleStart) -> Answer<Done> {
    if params.period_ms < SHORTEST_PERIOD_MS {
        return Err(ErrorObject::params(
            format!("'period_ms' is at least {SHORTEST_PERIOD_MS}"),
            params.period_ms,
        ));
    }
    let reserved = host.series.reserve(&params.series)?;
    // Refuse samplers that cannot be read now, instead of failing at the end of the series.
    read(host, &SampleRead { samplers: params.samplers.clone(), netns: params.netns.clone() })?;
    let (stop, stopped) = mpsc::channel();
    let reader = Arc::clone(host);
    let thread = thread::Builder::new().name(format!("series {}", params.series)).spawn(move || {
        let mut kept = Kept::new(params.keep);
        let mut readers = Readers::new(&params.samplers, &params.netns);
        let period = Duration::from_millis(params.period_ms);
        let mut next = Instant::now();
        loop {
            kept.push(encode_reading(readers.read(&reader)));
            // Keep the schedule that started with the first reading, and skip readings that would be late.
            let late_periods = next.elapsed().as_nanos() / period.as_nanos();
            next += period * u32::try_from(late_periods + 1).unwrap_or(u32::MAX);
            match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return kept,
            }
        }
    });
    let thread = thread.map_err(|error| refused("starting a thread in", "the agent", &error))?;
    reserved.fill(Recording { stop, thread });
    Ok(Done {})
}

/// Answer `sample.stop`.
pub fn stop(host: &Host, params: &SampleStop) -> Answer<Series<Box<RawValue>>> {
    let recording = host.series.take(&params.series)?;
    let _ = recording.stop.send(());
    let kept = recording.thread.join();
    let lost = || ErrorObject::new(ErrorCode::Internal, format!("series '{}' was lost", params.series));
    let kept = kept.map_err(|_| lost())?;
    Ok(Series { dropped: kept.dropped, readings: kept.readings.into() })
}

/// Serialize a reading; `None` if the reading failed.
fn encode_reading(outcomes: Answer<Vec<Outcome>>) -> Option<Box<RawValue>> {
    let (mut observations, mut failures) = (Vec::new(), Vec::new());
    for (sampler, netns, outcome) in outcomes.ok()? {
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

const SHORTEST_PERIOD_MS: u64 = 10;
