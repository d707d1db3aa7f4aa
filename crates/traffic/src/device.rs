//! Systems under test made of one XDP program or of a forwarding thread, by the parameters of `device.start`.

use iolab_engine::{self as engine, EndlessStalls, FixedDelay, Nanos};
use iolab_frame::MacAddress;
use iolab_port::{Attach, Device, Interface, PortError, Rule, Then};
use iolab_protocol::device::{
    DeviceAction, DeviceCounts, DeviceMode, DeviceRule, DeviceStart, DeviceStarted,
};
use iolab_protocol::ErrorObject;
use iolab_sys::clock;

use crate::faults::{bad_params, port_refused};
use crate::forwarder::{Addresses, Forwarder, Seat, Towards};

/// Longer delays, and stalls further apart, are refused.
const LONGEST_NS: u64 = 10_000_000_000;

/// A device in place, until dropped.
#[derive(Debug)]
pub struct RunningDevice {
    works: Works,
    interface: String,
    begin_ns: u64,
}

/// What does the work.
#[derive(Debug)]
enum Works {
    Program(Device),
    Thread(Forwarder),
}

impl RunningDevice {
    /// Put a device on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// The error of a reply; nothing is changed then.
    pub fn start(params: &DeviceStart) -> Result<Self, ErrorObject> {
        let interface = params.interface.clone();
        let works = match in_user_space(params.rule)? {
            Some(rule) => forwarder(params, rule).map(Works::Thread)?,
            None => program(params).map(Works::Program)?,
        };
        Ok(Self { works, interface, begin_ns: clock::now_ns() })
    }

    /// What to tell of it.
    pub fn describe(&self) -> DeviceStarted {
        let (mode, fallbacks, instructions) = match &self.works {
            Works::Program(device) => {
                let (mode, fallback) = device.mode();
                let instructions = u32::try_from(device.instructions()).unwrap_or(u32::MAX);
                (mode, fallback.map(str::to_owned).into_iter().collect(), instructions)
            }
            Works::Thread(forwarder) => ("user", forwarder.fallbacks.clone(), 0),
        };
        DeviceStarted { mode: mode.to_owned(), fallbacks, instructions, begin_ns: self.begin_ns }
    }

    /// Its counters.
    ///
    /// # Errors
    /// When the kernel refuses them, or a device in user space ended because an interface did.
    pub fn read(&self) -> Result<DeviceCounts, ErrorObject> {
        let begin_ns = clock::now_ns();
        let counts = match &self.works {
            Works::Program(device) => device.stats().map(|stats| (stats.passed_frames, stats.dropped_frames)),
            Works::Thread(forwarder) => forwarder.counts(),
        };
        let (passed_frames, dropped_frames) =
            counts.map_err(|error| port_refused("reading a device", &self.interface, &error))?;
        Ok(DeviceCounts { passed_frames, dropped_frames, begin_ns, end_ns: clock::now_ns() })
    }
}

fn program(params: &DeviceStart) -> Result<Device, ErrorObject> {
    if params.cpu.is_some() || params.priority.is_some() {
        let error =
            "an XDP program runs where its frames arrive: 'cpu' and 'priority' are for 'delay' and 'stall'";
        return Err(bad_params("rule", &error));
    }
    let (rule, then) = (rule(params.rule)?, then(&params.action)?);
    Device::attach(&params.interface, rule, then, attach(params.mode))
        .map_err(|error| refused(params, &error))
}

fn forwarder(params: &DeviceStart, rule: Box<dyn engine::Device + Send>) -> Result<Forwarder, ErrorObject> {
    let DeviceAction::Forward { interface, source_mac, destination_mac } = &params.action else {
        return Err(bad_params("action", &"a device in user space forwards to another interface"));
    };
    let addresses = addresses(source_mac.as_deref(), destination_mac.as_deref())?;
    let towards = Towards { interface: interface.clone(), addresses };
    let seat = Seat { cpu: params.cpu, priority: params.priority };
    Forwarder::start(&params.interface, &towards, rule, attach(params.mode), seat)
        .map_err(|error| refused(params, &error))
}

const fn attach(mode: DeviceMode) -> Attach {
    match mode {
        DeviceMode::Auto => Attach::NativeFirst,
        DeviceMode::Native => Attach::Native,
        DeviceMode::Generic => Attach::Generic,
    }
}

fn refused(params: &DeviceStart, error: &PortError) -> ErrorObject {
    match error {
        PortError::BadValue { .. } => bad_params("rule", error),
        other => port_refused(&format!("starting device '{}'", params.id), &params.interface, other),
    }
}

/// The rule of a device that no XDP program can be; none where one can.
fn in_user_space(rule: DeviceRule) -> Result<Option<Box<dyn engine::Device + Send>>, ErrorObject> {
    match rule {
        DeviceRule::Delay { delay_ns } if delay_ns <= LONGEST_NS => {
            Ok(Some(Box::new(FixedDelay(Nanos(delay_ns)))))
        }
        DeviceRule::Stall { length_ns, every_ns }
            if length_ns <= every_ns && (1..=LONGEST_NS).contains(&every_ns) =>
        {
            let (period, length) = (Nanos(every_ns), Nanos(length_ns));
            let first = Nanos(clock::now_ns().saturating_add(every_ns));
            Ok(Some(Box::new(EndlessStalls { first, period, length })))
        }
        DeviceRule::Delay { .. } => Err(bad_params("rule", &format!("'delay_ns' is at most {LONGEST_NS}"))),
        DeviceRule::Stall { .. } => {
            let error = format!("'every_ns' is from 1 to {LONGEST_NS}, and 'length_ns' no more than it");
            Err(bad_params("rule", &error))
        }
        _ => Ok(None),
    }
}

fn rule(rule: DeviceRule) -> Result<Rule, ErrorObject> {
    Ok(match rule {
        DeviceRule::All => Rule::All,
        DeviceRule::TokenBucket { frames, per_ns, burst_frames } => {
            let second = u128::from(frames) * 1_000_000_000;
            let whole = (per_ns > 0 && second % u128::from(per_ns) == 0).then(|| second / u128::from(per_ns));
            let rate_pps = whole.and_then(|rate| u32::try_from(rate).ok()).ok_or_else(|| {
                bad_params(
                    "rule",
                    &format!("{frames} frames per {per_ns} ns are no whole number per second, or too many"),
                )
            })?;
            Rule::TokenBucket { rate_pps, burst_frames }
        }
        DeviceRule::LoseEvery { frames } => Rule::LoseEvery { frames },
        DeviceRule::Lose { frames_per_million, seed } => {
            if frames_per_million > 1_000_000 {
                return Err(bad_params("rule", &"'frames_per_million' is at most 1000000"));
            }
            let threshold = (u64::from(frames_per_million) << 32) / 1_000_000;
            Rule::LoseRandomly { threshold: u32::try_from(threshold).unwrap_or(u32::MAX), seed }
        }
        DeviceRule::Delay { .. } | DeviceRule::Stall { .. } => {
            return Err(bad_params("rule", &"no XDP program delays frames"));
        }
    })
}

fn then(action: &DeviceAction) -> Result<Then, ErrorObject> {
    Ok(match action {
        DeviceAction::Reflect => Then::Reflect,
        DeviceAction::Drop => Then::Drop,
        DeviceAction::Pass => Then::Pass,
        DeviceAction::Forward { interface, source_mac, destination_mac } => {
            let addresses = addresses(source_mac.as_deref(), destination_mac.as_deref())?;
            let found = Interface::find(interface)
                .map_err(|error| port_refused("starting a device that forwards", interface, &error))?;
            Then::Redirect { index: found.index, addresses }
        }
    })
}

/// A new source and destination address, given both or not at all.
fn addresses(source: Option<&str>, destination: Option<&str>) -> Result<Option<Addresses>, ErrorObject> {
    let mac = |text: &str| text.parse::<MacAddress>().map_err(|error| bad_params("action", &error));
    match (source, destination) {
        (None, None) => Ok(None),
        (Some(source), Some(destination)) => Ok(Some((mac(source)?.0, mac(destination)?.0))),
        _ => Err(bad_params("action", &"'source_mac' and 'destination_mac' are given both or not at all")),
    }
}
