//! Loss: independent, in bursts, or by a pattern.

use super::chance::{checked, Chance, FrameDraws};
use super::{Impairment, Onward, Passing};
use crate::error::EngineError;

/// Drops frames according to a loss model.
#[derive(Debug, Clone)]
pub struct Loss(Model);

#[derive(Debug, Clone)]
enum Model {
    Random(Chance),
    Bursts { model: GilbertElliott, bad: bool, draws: FrameDraws },
    Pattern { lost: Box<[bool]>, turn: usize },
    Every { frames: u64, turn: u64 },
}

/// The Gilbert-Elliott model (1960, 1963): a good and a bad state, each with a separate loss ratio. All ratios are in
/// units of 1 / `PARTS`. The mean time in the bad state is 1 / `to_good` frames, and the fraction of time in it is
/// `to_bad` / (`to_bad` + `to_good`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// Transition probability from good to bad, before each frame.
    pub to_bad: u32,
    /// Transition probability from bad to good, before each frame.
    pub to_good: u32,
    /// Loss ratio in the bad state.
    pub loss_in_bad: u32,
    /// Loss ratio in the good state.
    pub loss_in_good: u32,
}

impl Loss {
    /// Lose each frame independently with the probability `ratio` / `PARTS`.
    ///
    /// # Errors
    /// Fails if the ratio is above 1.
    pub fn random(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        Ok(Self(Model::Random(Chance::new(ratio, seed)?)))
    }

    /// Lose frames in bursts; the model starts in the good state, and a transition can occur before the first frame.
    ///
    /// # Errors
    /// Fails if a ratio is above 1.
    pub fn bursts(model: GilbertElliott, seed: u64) -> Result<Self, EngineError> {
        let GilbertElliott { to_bad, to_good, loss_in_bad, loss_in_good } = model;
        for ratio in [to_bad, to_good, loss_in_bad, loss_in_good] {
            checked(ratio)?;
        }
        Ok(Self(Model::Bursts { model, bad: false, draws: FrameDraws::new(seed) }))
    }

    /// Lose the frames whose entry in the pattern is true; the pattern repeats.
    ///
    /// # Errors
    /// Fails if the pattern is empty.
    pub fn pattern(lost: &[bool]) -> Result<Self, EngineError> {
        if lost.is_empty() {
            let allowed = "at least one frame";
            return Err(EngineError::Setting { what: "length of a loss pattern", seen: 0, allowed });
        }
        Ok(Self(Model::Pattern { lost: lost.into(), turn: 0 }))
    }

    /// Lose every n-th frame.
    ///
    /// # Errors
    /// Fails if n is 0.
    pub fn every(frames: u64) -> Result<Self, EngineError> {
        if frames == 0 {
            let allowed = "1 or more";
            return Err(EngineError::Setting { what: "period of a loss", seen: 0, allowed });
        }
        Ok(Self(Model::Every { frames, turn: 0 }))
    }

    /// Whether the frame is lost; frames must be passed in arrival order.
    fn draw(&mut self, frame: &Passing) -> bool {
        match &mut self.0 {
            Model::Random(chance) => chance.draw(frame),
            Model::Bursts { model, bad, draws } => {
                let change = if *bad { model.to_good } else { model.to_bad };
                *bad ^= draws.says(frame, 0, change);
                draws.says(frame, 1, if *bad { model.loss_in_bad } else { model.loss_in_good })
            }
            Model::Pattern { lost, turn } => {
                let drawn = lost[*turn];
                *turn = (*turn + 1) % lost.len();
                drawn
            }
            Model::Every { frames, turn } => {
                *turn = (*turn + 1) % *frames;
                *turn == 0
            }
        }
    }
}

impl Impairment for Loss {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        if !frame.spared && self.draw(&frame) {
            onward.lose(frame);
        } else {
            onward.pass(frame);
        }
    }

    fn restart_draws(&mut self, seed: u64) {
        match &mut self.0 {
            Model::Random(chance) => chance.draw_from(seed),
            Model::Bursts { bad, draws, .. } => (*bad, *draws) = (false, FrameDraws::new(seed)),
            Model::Pattern { turn, .. } => *turn = 0,
            Model::Every { turn, .. } => *turn = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::impairment::PARTS;
    use crate::time::Nanos;

    fn draws(mut loss: Loss, frames: usize) -> Vec<bool> {
        (0..frames as u64).map(|number| loss.draw(&Passing::new(number, 64, Nanos(number)))).collect()
    }

    #[test]
    fn periodic_and_pattern_losses_are_exact() {
        assert_eq!(draws(Loss::every(3).unwrap(), 7), [false, false, true, false, false, true, false]);
        assert_eq!(draws(Loss::pattern(&[true, false]).unwrap(), 5), [true, false, true, false, true]);
        assert!(
            Loss::every(0).is_err() && Loss::pattern(&[]).is_err() && Loss::random(PARTS + 1, 1).is_err()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Check that a count is within five standard deviations of its binomial mean.
        #[test]
        fn random_loss_has_the_configured_ratio(ratio in 0..=PARTS, seed: u64) {
            let frames = 200_000;
            let lost = draws(Loss::random(ratio, seed).unwrap(), frames).iter().filter(|lost| **lost).count();
            let (p, n) = (f64::from(ratio) / 1e9, frames as f64);
            prop_assert!((lost as f64 - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt() + 1.0, "{lost} at {p}");
        }
    }

    /// Runs of lost frames in a bad state that loses every frame are geometric with its parameter: chi-squared over
    /// lengths 1 to 8 and above, 8 degrees of freedom, 26.1 at 0.1 %.
    #[test]
    fn gilbert_elliott_loss_runs_are_geometric() {
        let model =
            GilbertElliott { to_bad: 10_000_000, to_good: 250_000_000, loss_in_bad: PARTS, loss_in_good: 0 };
        let lost = draws(Loss::bursts(model, 3).unwrap(), 4_000_000);
        let runs: Vec<usize> = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let (p, count) = (0.25, runs.len() as f64);
        let mut chi_squared = 0.0;
        for length in 1..=9 {
            let tail = (1.0_f64 - p).powi(length - 1);
            let expected = count * if length < 9 { p * tail } else { tail };
            let least = usize::try_from(length).unwrap();
            let seen =
                runs.iter().filter(|run| if length < 9 { **run == least } else { **run >= least }).count();
            chi_squared += (seen as f64 - expected).powi(2) / expected;
        }
        assert!(count > 30_000.0 && chi_squared < 26.1, "{count} runs, chi-squared {chi_squared}");
        let share = lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64;
        assert!((share - 1.0 / 26.0).abs() < 0.001, "{share}");
    }

    #[test]
    fn equal_seeds_lose_the_same_frames() {
        let lost = |seed| draws(Loss::random(100_000_000, seed).unwrap(), 10_000);
        assert_eq!(lost(4), lost(4));
        assert_ne!(lost(4), lost(5));
    }
}
