//! Systems under test made of one XDP program or a forwarding thread, from the parameters of `device.start`.

use iolab_engine::Nanos;
use iolab_frame::MacAddress;
use iolab_port::{Attach, Device, Interface, PortError, Rule, Then};
use iolab_protocol::device::{DeviceAction, DeviceCounts, DeviceMode, DeviceStart, DeviceStarted};
use iolab_protocol::impairment::{Impairment, LineRate, QueueLimit};
use iolab_protocol::ErrorObject;
use iolab_sys::clock;

use crate::faults::{bad_params, port_refused};
use crate::forwarder::{Addresses, Forwarder, Seat, Towards};
use crate::impairments::{chain, stage_seeds};

/// A running device, which stops on drop.
#[derive(Debug)]
pub struct RunningDevice {
    works: Works,
    interface: String,
    begin_ns: u64,
}

/// The implementation of a device.
#[derive(Debug)]
enum Works {
    Program(Device),
    Thread(Forwarder),
}

impl RunningDevice {
    /// Start a device on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// Returns an error object for the reply; nothing is changed in this case.
    pub fn start(params: &DeviceStart) -> Result<Self, ErrorObject> {
        let interface = params.interface.clone();
        let works = match rule(&params.impairments, params.seed) {
            Some(rule) => program(params, rule).map(Works::Program)?,
            None => forwarder(params).map(Works::Thread)?,
        };
        Ok(Self { works, interface, begin_ns: clock::now_ns() })
    }

    /// Return the reply to the start request.
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

    /// Return the counters.
    ///
    /// # Errors
    /// Fails if the kernel refuses to return the counters, or a user-space device stopped because of an interface
    /// error.
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

fn program(params: &DeviceStart, rule: Rule) -> Result<Device, ErrorObject> {
    if params.cpu.is_some() || params.priority.is_some() {
        let error = "an XDP program runs where its frames arrive: 'cpu' and 'priority' are for impairments that need a thread";
        return Err(bad_params("impairments", &error));
    }
    let then = then(&params.action)?;
    Device::attach(&params.interface, rule, then, attach(params.mode))
        .map_err(|error| refused(params, &error))
}

fn forwarder(params: &DeviceStart) -> Result<Forwarder, ErrorObject> {
    if params.impairments.iter().any(|one| matches!(one, Impairment::Pacer { .. })) {
        return Err(bad_params("impairments", &"a pacer is a part of wires; a device has no classes"));
    }
    let chain = chain(&params.impairments, params.seed, Nanos(clock::now_ns()))?;
    let DeviceAction::Forward { interface, source_mac, destination_mac } = &params.action else {
        return Err(bad_params("action", &"a device in user space forwards to another interface"));
    };
    let addresses = addresses(source_mac.as_deref(), destination_mac.as_deref())?;
    let towards = Towards { interface: interface.clone(), addresses };
    let seat = Seat { cpu: params.cpu, priority: params.priority };
    Forwarder::start(&params.interface, &towards, chain, attach(params.mode), seat)
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
        PortError::BadValue { .. } => bad_params("impairments", error),
        other => port_refused(&format!("starting device '{}'", params.id), &params.interface, other),
    }
}

/// Return the rule of an XDP program equivalent to `impairments`, or none if there is no such program. The program
/// loses the same frames as the chain would.
fn rule(impairments: &[Impairment], seed: u64) -> Option<Rule> {
    match impairments {
        [] => Some(Rule::All),
        [Impairment::LossEvery { frames }] => Some(Rule::LoseEvery { frames: u32::try_from(*frames).ok()? }),
        [one @ Impairment::Loss { frames_per_billion }] => {
            let seed = stage_seeds(&[one.kind()], seed)[0];
            Some(Rule::LoseRandomly { frames_per_billion: *frames_per_billion, seed })
        }
        [Impairment::Line {
            rate: LineRate::Frames { frames, per_ns, burst_frames: burst_frames @ 1.. },
            queue: Some(QueueLimit::Frames { frames: 0 }),
            codel: None,
            mark_above: None,
        }] => {
            let second = u128::from(*frames) * 1_000_000_000;
            let whole = (second % u128::from((*per_ns).max(1)) == 0)
                .then(|| second / u128::from((*per_ns).max(1)))?;
            Some(Rule::TokenBucket { rate_pps: u32::try_from(whole).ok()?, burst_frames: *burst_frames })
        }
        _ => None,
    }
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

/// Parse the new source and destination MAC address; both or neither must be given.
fn addresses(source: Option<&str>, destination: Option<&str>) -> Result<Option<Addresses>, ErrorObject> {
    let mac = |text: &str| text.parse::<MacAddress>().map_err(|error| bad_params("action", &error));
    match (source, destination) {
        (None, None) => Ok(None),
        (Some(source), Some(destination)) => Ok(Some((mac(source)?.0, mac(destination)?.0))),
        _ => Err(bad_params("action", &"'source_mac' and 'destination_mac' are given both or not at all")),
    }
}
