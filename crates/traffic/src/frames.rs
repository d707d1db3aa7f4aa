//! Validation of a sender's parameters and conversion to engine and frame types, before the trial starts.

use std::sync::Arc;

use iolab_engine::{GapFrames, Generator, Limit, Nanos, Order, PacerConfig, Rate, Share, StallPolicy};
use iolab_frame::{FrameTemplate, Replay, SizeMix, SizeShare, TemplateConfig};
use iolab_protocol::traffic::{self, FrameParams, SenderParams, StallRule};
use iolab_protocol::ErrorObject;

use crate::contents::{Contents, Made, Recordings, Replayed};
use crate::faults::bad_params;
use crate::headers::template_config;

/// Maximum duration of a trial.
const LONGEST: Nanos = Nanos::from_secs(3600);

/// The validated plan of one sender.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Source of the frames.
    pub contents: Contents,
    /// Number of VLAN tags of the frames.
    pub vlan_tags: u8,
    mix: SizeMix,
    pacing: PacerConfig,
    threads: u32,
    gaps: Option<GapFrames>,
    /// Source MAC address of gap frames.
    pub own_mac: [u8; 6],
}

impl Plan {
    /// Validate the parameters of sender `place` in a trial of `duration_ns` with `threads` sending threads;
    /// `own_mac` is the MAC address of its interface.
    pub fn new(
        place: usize,
        params: &SenderParams,
        duration_ns: u64,
        own_mac: [u8; 6],
        threads: u32,
        recordings: &Recordings,
    ) -> Result<Self, ErrorObject> {
        let name = format!("senders[{place}]");
        let frames = &params.frames;
        let shares = frames.sizes.iter().map(|&(frame_bytes, weight)| SizeShare { frame_bytes, weight });
        let mix = SizeMix::new(&shares.collect::<Vec<_>>())
            .map_err(|error| bad_params(&format!("{name}.frames.sizes"), &error))?;
        let config = template_config(&name, frames, mix.clone(), own_mac, params.tag)?;
        let vlan_tags = u8::try_from(config.vlans.len()).unwrap_or(u8::MAX);
        let contents = match &params.replay {
            None => made(&name, frames, &config)?,
            Some(asked) => replayed(&name, asked, recordings, &config, threads)?,
        };
        let plan = Self {
            contents,
            // Recorded frames may have a VLAN tag.
            vlan_tags: vlan_tags.max(u8::from(params.replay.is_some())),
            pacing: pacing(&name, params, duration_ns)?,
            gaps: gap_frames(&name, params, &mix, threads)?,
            mix,
            threads,
            own_mac,
        };
        // Create the generators once, so that errors of the engine are reported before the trial starts.
        for share in plan.shares() {
            plan.generator(Nanos::ZERO, share).map_err(|error| bad_params(&name, &error))?;
        }
        Ok(plan)
    }

    /// Return the share of each thread.
    pub fn shares(&self) -> impl Iterator<Item = Share> {
        Share::all(self.threads)
    }

    /// Create the generator of one thread, with the first frame of the stream due at `start`.
    pub fn generator(&self, start: Nanos, share: Share) -> Result<Generator, iolab_engine::EngineError> {
        self.contents.generator(&PacerConfig { start, ..self.pacing }, share)
    }

    /// Return the maximum number of frames of one thread.
    pub fn most_frames(&self) -> u64 {
        let first = Share { place: 0, of: self.threads };
        self.generator(Nanos::ZERO, first).map_or(0, |generator| generator.pacer().intended_frames())
    }

    /// Return the time in which a maximum burst of one thread becomes due.
    pub fn burst_span(&self) -> Nanos {
        let mean = self.pacing.rate.mean_gap(&self.mix).0.saturating_mul(u64::from(self.threads));
        Nanos(mean.saturating_mul(u64::from(self.pacing.max_burst - 1)))
    }

    /// Return the maximum burst (frames).
    pub const fn max_burst(&self) -> usize {
        self.pacing.max_burst as usize
    }

    /// Return the maximum lateness that a thread can make up.
    pub fn late_limit(&self) -> Nanos {
        let most = match self.pacing.stall {
            StallPolicy::Slip => self.pacing.max_burst,
            StallPolicy::CatchUp { max_frames } => max_frames.max(self.pacing.max_burst),
        };
        Nanos(self.pacing.rate.mean_gap(&self.mix).0.saturating_mul(u64::from(most)))
    }

    /// Return the lateness above which a stall is logged.
    pub const fn stall_threshold(&self) -> Nanos {
        self.pacing.stall_threshold
    }

    /// Return the gap frames of the line, if frames are spaced by gap frames.
    pub fn gaps(&self) -> Option<GapFrames> {
        self.gaps.clone()
    }
}

/// Create the frame source for a template.
fn made(name: &str, frames: &FrameParams, config: &TemplateConfig) -> Result<Contents, ErrorObject> {
    let template =
        FrameTemplate::new(config).map_err(|error| bad_params(&format!("{name}.frames"), &error))?;
    Ok(Contents::Made(Made {
        sizes_bytes: (0..frames.sizes.len()).filter_map(|size| template.memory_bytes(size)).collect(),
        template,
        mix: config.sizes.clone(),
        size_order: order(frames.size_order),
        flow_order: order(frames.flow_order),
    }))
}

/// Create the frame source for an uploaded recording.
fn replayed(
    name: &str,
    asked: &traffic::Replayed,
    recordings: &Recordings,
    config: &TemplateConfig,
    threads: u32,
) -> Result<Contents, ErrorObject> {
    let Some(recording) = recordings.get(&asked.recording) else {
        let message = format!("{name}.replay: the set has no such recording");
        return Err(ErrorObject::params(message, asked.recording.as_str()));
    };
    if threads > 1 {
        return Err(bad_params(&format!("{name}.replay"), &"one thread sends a recording"));
    }
    let replay = Replay {
        recording: Arc::clone(recording),
        source_mac: config.source_mac,
        destination_mac: config.destination_mac,
        tag: config.tag,
    };
    Ok(Contents::Replayed(Replayed { replay, as_recorded: asked.as_recorded }))
}

const fn order(order: traffic::Order) -> Order {
    match order {
        traffic::Order::Turns => Order::Turns,
        traffic::Order::Seeded { seed } => Order::Seeded(seed),
    }
}

fn pacing(name: &str, params: &SenderParams, duration_ns: u64) -> Result<PacerConfig, ErrorObject> {
    if duration_ns == 0 || duration_ns > LONGEST.0 {
        let message = format!("'duration_ns' is from 1 to {}", LONGEST.0);
        return Err(ErrorObject::params(message, duration_ns));
    }
    Ok(PacerConfig {
        start: Nanos::ZERO,
        rate: rate(name, params.rate)?,
        max_burst: params.max_burst,
        stall: match params.stall {
            StallRule::Slip => StallPolicy::Slip,
            StallRule::CatchUp { max_frames } => StallPolicy::CatchUp { max_frames },
        },
        limit: Limit { frames: params.limit_frames, duration: Some(Nanos(duration_ns)) },
        stall_threshold: Nanos(params.stall_threshold_ns),
    })
}

fn gap_frames(
    name: &str,
    params: &SenderParams,
    mix: &SizeMix,
    threads: u32,
) -> Result<Option<GapFrames>, ErrorObject> {
    let Some(line) = params.gap_frames else { return Ok(None) };
    if threads > 1 {
        return Err(bad_params(&format!("{name}.gap_frames"), &"one thread fills a line"));
    }
    let gaps = GapFrames::new(rate(name, params.rate)?, mix, line.line_bps);
    gaps.map(Some).map_err(|error| bad_params(&format!("{name}.gap_frames"), &error))
}

/// Convert `frames` per `per_ns` to an exact fraction per second.
fn rate(name: &str, rate: traffic::FrameRate) -> Result<Rate, ErrorObject> {
    let refused = |error: &dyn std::fmt::Display| bad_params(&format!("{name}.rate"), &error);
    let divisor = common_divisor(u128::from(rate.frames) * 1_000_000_000, u128::from(rate.per_ns)).max(1);
    let part = |value: u128| {
        u64::try_from(value / divisor).map_err(|_| refused(&"too many frames, or too long a time for them"))
    };
    let (frames, seconds) = (part(u128::from(rate.frames) * 1_000_000_000)?, part(u128::from(rate.per_ns))?);
    Rate::frames_per_second(frames, seconds).map_err(|error| refused(&error))
}

fn common_divisor(one: u128, other: u128) -> u128 {
    if other == 0 {
        one
    } else {
        common_divisor(other, one % other)
    }
}
