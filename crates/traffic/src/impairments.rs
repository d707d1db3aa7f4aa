//! Conversion of the impairments of a message to a chain of the engine.

use iolab_engine::impairment::{
    Chain, Chance, CodelLine, CodelTarget, Corrupt, Delay, DelayOrder, DeliveryTrace, Duplicate,
    GilbertElliott, Impairment as Stage, Jitter as DelayJitter, Line, LineClock, Loss, PacedClass,
    PacedClasses, PeriodicStalls, QueueLimit as Limit, RateTrace, Reorder,
};
use iolab_engine::{EngineError, Nanos, Random, Rate};
use iolab_protocol::impairment::{Codel, Impairment, Jitter, LineRate, PacerClass, QueueLimit};
use iolab_protocol::ErrorObject;

use crate::faults::bad_params;

/// Maximum delay, and maximum period of stalls (ns).
const LONGEST_NS: u64 = 10_000_000_000;

type Made = Result<Box<dyn Stage>, EngineError>;

/// Create the chain of `impairments`. Each stage has a random seed derived from `seed`; traces and stalls start at
/// `start`.
///
/// # Errors
/// Returns an error object for the reply, if a value is invalid.
pub fn chain(impairments: &[Impairment], seed: u64, start: Nanos) -> Result<Chain, ErrorObject> {
    let kinds: Vec<_> = impairments.iter().map(Impairment::kind).collect();
    let stages = impairments.iter().zip(stage_seeds(&kinds, seed)).map(|(impairment, seed)| {
        check_times(impairment)?;
        stage(impairment, seed, start).map_err(|error| bad_params("impairments", &error))
    });
    Ok(Chain::new(stages.collect::<Result<Vec<_>, _>>()?))
}

/// Derive the random seed of direction `index` of an emulated link.
pub const fn seed_of_way(seed: u64, index: u64) -> u64 {
    Random::of_part(seed, u64::MAX - index).next_u64()
}

/// Derive the random seed of each stage from `seed`, its kind, and its index among stages of this kind. So adding or
/// removing stages of other kinds does not change the random numbers of a stage.
pub fn stage_seeds(kinds: &[&str], seed: u64) -> Vec<u64> {
    let of = |(place, kind): (usize, &&str)| {
        let earlier = kinds[..place].iter().filter(|other| *other == kind).count() as u64;
        let named = kind.bytes().fold(seed, |seed, byte| Random::of_part(seed, byte.into()).next_u64());
        Random::of_part(named, earlier).next_u64()
    };
    kinds.iter().enumerate().map(of).collect()
}

fn check_times(impairment: &Impairment) -> Result<(), ErrorObject> {
    let longest_ns = match impairment {
        Impairment::Delay { delay_ns, .. } => *delay_ns,
        Impairment::Reorder { by_ns, .. } => *by_ns,
        Impairment::Stall { length_ns, every_ns } if *every_ns == 0 || length_ns > every_ns => {
            return Err(bad_params(
                "impairments",
                &"a stall's 'every_ns' is above 0, and 'length_ns' no more than it",
            ));
        }
        Impairment::Stall { every_ns, .. } => *every_ns,
        _ => 0,
    };
    if longest_ns > LONGEST_NS {
        return Err(bad_params("impairments", &format!("times of a device are at most {LONGEST_NS} ns")));
    }
    Ok(())
}

fn stage(impairment: &Impairment, seed: u64, start: Nanos) -> Made {
    Ok(match *impairment {
        Impairment::Loss { frames_per_billion } => Box::new(Loss::random(frames_per_billion, seed)?),
        Impairment::LossEvery { frames } => Box::new(Loss::every(frames)?),
        Impairment::LossPattern { ref lost } => Box::new(Loss::pattern(lost)?),
        Impairment::LossBursts {
            to_bad_per_billion: to_bad,
            to_good_per_billion: to_good,
            lost_in_bad_per_billion: loss_in_bad,
            lost_in_good_per_billion: loss_in_good,
        } => Box::new(Loss::bursts(GilbertElliott { to_bad, to_good, loss_in_bad, loss_in_good }, seed)?),
        Impairment::Corrupt { frames_per_billion } => {
            Box::new(Corrupt(Chance::new(frames_per_billion, seed)?))
        }
        Impairment::Duplicate { frames_per_billion } => {
            Box::new(Duplicate(Chance::new(frames_per_billion, seed)?))
        }
        Impairment::Reorder { frames_per_billion, by_ns } => {
            Box::new(Reorder { chance: Chance::new(frames_per_billion, seed)?, by: Nanos(by_ns) })
        }
        Impairment::Delay { delay_ns, ref jitter, correlation_per_billion, overtaking } => {
            let order = if overtaking { DelayOrder::Free } else { DelayOrder::Kept };
            Box::new(Delay::drawn(Nanos(delay_ns), drawn(jitter), correlation_per_billion, order, seed)?)
        }
        Impairment::Stall { length_ns, every_ns } => {
            let (period, length) = (Nanos(every_ns), Nanos(length_ns));
            Box::new(PeriodicStalls { first: start.plus(period), period, length })
        }
        Impairment::Pacer { rate_bps, ref classes, .. } => {
            let class = |one: &PacerClass| PacedClass {
                rate_bps: one.rate_bps,
                ceil_bps: one.ceil_bps,
                limit: limit(one.queue),
            };
            Box::new(PacedClasses::new(rate_bps, &classes.iter().map(class).collect::<Vec<_>>())?)
        }
        Impairment::Line { ref rate, queue, codel, mark_above } => {
            line(clock(rate, start)?, limit(queue), codel, mark_above.map(|most| limit(Some(most))))
        }
    })
}

fn drawn(jitter: &Jitter) -> DelayJitter {
    match jitter {
        Jitter::None => DelayJitter::None,
        Jitter::Uniform { most_ns } => DelayJitter::Uniform(Nanos(*most_ns)),
        Jitter::Normal { deviation_ns } => DelayJitter::Normal(Nanos(*deviation_ns)),
        Jitter::Samples { later_ns } => DelayJitter::Samples(later_ns.iter().map(|&ns| Nanos(ns)).collect()),
    }
}

fn line(clock: LineClock, limit: Limit, codel: Option<Codel>, mark_above: Option<Limit>) -> Box<dyn Stage> {
    match codel {
        None => Box::new(Line::new(clock, limit, mark_above)),
        Some(Codel { target_ns, interval_ns, marks }) => {
            let law = CodelTarget { target: Nanos(target_ns), interval: Nanos(interval_ns), marks };
            Box::new(CodelLine::new(clock, limit, law))
        }
    }
}

fn clock(rate: &LineRate, start: Nanos) -> Result<LineClock, EngineError> {
    Ok(match rate {
        LineRate::Bits { bps } => LineClock::constant(Rate::layer2_bps(*bps)?, Nanos::ZERO),
        LineRate::Frames { frames, per_ns, burst_frames } => {
            let rate = Rate::frames_per_second(frames.saturating_mul(1_000_000_000), *per_ns)?;
            let saved_ns = u128::from(*burst_frames) * u128::from(*per_ns) / u128::from((*frames).max(1));
            LineClock::constant(rate, Nanos(u64::try_from(saved_ns).unwrap_or(u64::MAX)))
        }
        LineRate::Trace { steps } => {
            let steps: Vec<_> = steps.iter().map(|&(length_ns, bps)| (Nanos(length_ns), bps)).collect();
            LineClock::Rate(RateTrace::new(&steps, start)?)
        }
        LineRate::Delivery { moments_ns, bytes } => {
            let moments: Vec<_> = moments_ns.iter().map(|&ns| Nanos(ns)).collect();
            LineClock::Delivery(DeliveryTrace::new(&moments, *bytes, start)?)
        }
    })
}

fn limit(queue: Option<QueueLimit>) -> Limit {
    match queue {
        None => Limit::None,
        Some(QueueLimit::Frames { frames }) => Limit::Frames(frames),
        Some(QueueLimit::Bytes { bytes }) => Limit::Bytes(bytes),
        Some(QueueLimit::Time { most_ns }) => Limit::Time(Nanos(most_ns)),
    }
}

#[cfg(test)]
mod tests {
    use iolab_engine::impairment::{Outcome, Passing};

    use super::*;

    fn read(text: &str) -> Vec<Impairment> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn impairments_are_applied_in_order() {
        let text = r#"[{"kind":"loss_every","frames":2},{"kind":"delay","delay_ns":7},
            {"kind":"line","rate":{"kind":"bits","bps":1000000000},"queue":{"kind":"frames","frames":1}}]"#;
        let mut chain = chain(&read(text), 1, Nanos::ZERO).unwrap();
        (0..6).for_each(|id| chain.push(Passing::new(id, 125, Nanos(100))));
        let fates: Vec<_> = chain
            .decided()
            .map(|outcome| match outcome {
                Outcome::Leaves(frame) => (frame.id, Ok(frame.at.0)),
                Outcome::Lost(frame, stage) => (frame.id, Err(stage)),
            })
            .collect();
        assert_eq!(fates, [(0, Ok(1107)), (1, Err(0)), (2, Ok(2107)), (3, Err(0)), (4, Err(2)), (5, Err(0))]);
    }

    #[test]
    fn seed_of_a_stage_does_not_depend_on_other_stages() {
        let all = stage_seeds(&["loss", "corrupt", "delay", "loss"], 9);
        assert_eq!((all[0], all[2]), (stage_seeds(&["loss"], 9)[0], stage_seeds(&["line", "delay"], 9)[1]));
        assert!((1..4).all(|place| !all[..place].contains(&all[place])), "{all:?}");
        assert_ne!(stage_seeds(&["loss"], 9), stage_seeds(&["loss"], 10));
    }

    #[test]
    fn invalid_impairments_are_refused() {
        for text in [
            r#"[{"kind":"loss","frames_per_billion":1000000001}]"#,
            r#"[{"kind":"delay","delay_ns":10000000001}]"#,
            r#"[{"kind":"stall","length_ns":2,"every_ns":1}]"#,
            r#"[{"kind":"line","rate":{"kind":"bits","bps":0}}]"#,
            r#"[{"kind":"line","rate":{"kind":"delivery","moments_ns":[5,4],"bytes":1504}}]"#,
        ] {
            let error = chain(&read(text), 1, Nanos::ZERO).err().unwrap();
            assert!(error.message.starts_with("impairments: "), "{}", error.message);
        }
    }
}
