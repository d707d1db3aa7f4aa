//! Systems under test made of one XDP program, by the parameters of `device.start`.

use iolab_port::{clock, Attach, Device, Interface, Rule, Then};
use iolab_protocol::device::{
    DeviceAction, DeviceCounts, DeviceMode, DeviceRule, DeviceStart, DeviceStarted,
};
use iolab_protocol::ErrorObject;
use iolab_wire::MacAddress;

use crate::faults::{bad_params, port_refused};

/// A device in place, until dropped.
#[derive(Debug)]
pub struct RunningDevice {
    device: Device,
    interface: String,
    begin_ns: u64,
}

impl RunningDevice {
    /// Put a device on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// The error of a reply; nothing is changed then.
    pub fn start(params: &DeviceStart) -> Result<Self, ErrorObject> {
        let (rule, then) = (rule(params.rule)?, then(&params.action)?);
        let attach = match params.mode {
            DeviceMode::Auto => Attach::NativeFirst,
            DeviceMode::Native => Attach::Native,
            DeviceMode::Generic => Attach::Generic,
        };
        let interface = params.interface.clone();
        let device = Device::attach(&interface, rule, then, attach).map_err(|error| {
            let doing = format!("starting device '{}'", params.id);
            match error {
                iolab_port::PortError::BadValue { .. } => bad_params("rule", &error),
                other => port_refused(&doing, &interface, &other),
            }
        })?;
        Ok(Self { device, interface, begin_ns: clock::now_ns() })
    }

    /// What to tell of it.
    pub fn describe(&self) -> DeviceStarted {
        let (mode, fallback) = self.device.mode();
        DeviceStarted {
            mode: mode.to_owned(),
            fallbacks: fallback.map(str::to_owned).into_iter().collect(),
            instructions: u32::try_from(self.device.instructions()).unwrap_or(u32::MAX),
            begin_ns: self.begin_ns,
        }
    }

    /// Its counters.
    ///
    /// # Errors
    /// When the kernel refuses them.
    pub fn read(&self) -> Result<DeviceCounts, ErrorObject> {
        let begin_ns = clock::now_ns();
        let stats = self.device.stats();
        let stats = stats.map_err(|error| port_refused("reading a device", &self.interface, &error))?;
        let (passed_frames, dropped_frames) = (stats.passed_frames, stats.dropped_frames);
        Ok(DeviceCounts { passed_frames, dropped_frames, begin_ns, end_ns: clock::now_ns() })
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
    })
}

fn then(action: &DeviceAction) -> Result<Then, ErrorObject> {
    Ok(match action {
        DeviceAction::Reflect => Then::Reflect,
        DeviceAction::Drop => Then::Drop,
        DeviceAction::Pass => Then::Pass,
        DeviceAction::Forward { interface, source_mac, destination_mac } => {
            let mac = |text: &str| text.parse::<MacAddress>().map_err(|error| bad_params("action", &error));
            let addresses = match (source_mac, destination_mac) {
                (None, None) => None,
                (Some(source), Some(destination)) => Some((mac(source)?.0, mac(destination)?.0)),
                _ => {
                    let error = "'source_mac' and 'destination_mac' are given both or not at all";
                    return Err(bad_params("action", &error));
                }
            };
            let found = Interface::find(interface)
                .map_err(|error| port_refused("starting a device that forwards", interface, &error))?;
            Then::Redirect { index: found.index, addresses }
        }
    })
}
