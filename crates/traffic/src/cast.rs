//! The roles in a trial, validated against the ports of the port set before the trial starts.

use iolab_engine::{Nanos, Receiver, ReceiverConfig};
use iolab_frame::{Check, Inspector, FCS_BYTES};
use iolab_port::PortError;
use iolab_protocol::traffic::{Checking, ReceiverParams, SharedCpu, TrafficRun, Waiting};
use iolab_protocol::ErrorObject;
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;

use crate::contents::Recordings;
use crate::faults::{bad_params, port_refused};
use crate::frames::Plan;
use crate::ports::{lock, OpenPort};
use crate::receive::Manner;

/// Total window length of all flows (bits).
const WINDOW_BITS: u32 = 1 << 26;

/// A sender with its port.
pub struct SenderRole<'a> {
    pub port: &'a OpenPort,
    pub plan: Plan,
    /// Maximum time for the interface to accept or refuse the last frames.
    pub patience: Nanos,
}

/// A receiver with its port.
pub struct ReceiverRole<'a> {
    pub port: &'a OpenPort,
    pub of: usize,
    pub manner: Manner,
    flow_count: u32,
    /// Account of frames without a stamp, after the accounts of the flows.
    pub unstamped_flow: Option<u32>,
}

/// The senders and receivers of a trial.
pub struct Cast<'a> {
    pub senders: Vec<SenderRole<'a>>,
    pub receivers: Vec<ReceiverRole<'a>>,
}

impl<'a> Cast<'a> {
    /// Find the ports and create the plans for `params`.
    pub fn new(
        ports: &'a [OpenPort],
        params: &TrafficRun,
        recordings: &Recordings,
    ) -> Result<Self, ErrorObject> {
        if params.senders.is_empty() {
            return Err(ErrorObject::params("'senders' has at least one sender", Vec::<usize>::new()));
        }
        let mut senders: Vec<SenderRole<'_>> = Vec::new();
        for (place, sender) in params.senders.iter().enumerate() {
            let name = format!("senders[{place}]");
            let port = find(ports, &name, &sender.port)?;
            let twice = senders.iter().any(|other| std::ptr::eq(other.port, port));
            check_half(&name, port, port.sends(), twice, "sends")?;
            let plan = Plan::new(
                place,
                sender,
                params.duration_ns,
                port.interface.address,
                port.senders(),
                recordings,
            )?;
            check_sizes(port, &plan)?;
            senders.push(SenderRole { port, plan, patience: Nanos(params.drain.timeout_ns) });
        }
        let sending: u32 = senders.iter().map(|role| role.port.senders()).sum();
        let threads = sending as usize + params.receivers.len();
        let mut receivers: Vec<ReceiverRole<'_>> = Vec::new();
        for (place, receiver) in params.receivers.iter().enumerate() {
            let name = format!("receivers[{place}]");
            let port = find(ports, &name, &receiver.port)?;
            let twice = receivers.iter().any(|other| std::ptr::eq(other.port, port));
            check_half(&name, port, lock(&port.rx).is_some(), twice, "receives")?;
            let Some(sender) = senders.get(receiver.of) else {
                return Err(ErrorObject::params(
                    format!("{name}: 'of' is a place in 'senders'"),
                    receiver.of,
                ));
            };
            let manner = manner(receiver, params, &sender.plan, threads);
            let (flow_count, unstamped_flow) =
                (sender.plan.contents.accounts(), sender.plan.contents.unstamped_flow());
            receivers.push(ReceiverRole { port, of: receiver.of, manner, flow_count, unstamped_flow });
        }
        Ok(Self { senders, receivers })
    }

    /// Return the CPUs to which several threads are pinned.
    pub fn shared_cpus(&self) -> Vec<SharedCpu> {
        let sending =
            self.senders.iter().flat_map(|role| role.port.send_cpus().map(|cpu| (cpu, role.port, "send")));
        let receiving =
            self.receivers.iter().map(|role| (role.port.params.receive_cpu, role.port, "receive"));
        let mut by_cpu = std::collections::BTreeMap::<usize, Vec<String>>::new();
        for (cpu, port, what) in sending.chain(receiving) {
            if let Some(cpu) = cpu {
                by_cpu.entry(cpu).or_default().push(format!("{}.{what}", port.params.name));
            }
        }
        by_cpu.retain(|_, threads| threads.len() > 1);
        by_cpu.into_iter().map(|(cpu, threads)| SharedCpu { cpu, threads }).collect()
    }
}

fn find<'a>(ports: &'a [OpenPort], place: &str, name: &str) -> Result<&'a OpenPort, ErrorObject> {
    let port = ports.iter().find(|port| port.params.name == name);
    port.ok_or_else(|| ErrorObject::params(format!("{place}: the set has no such port"), name))
}

fn manner(receiver: &ReceiverParams, params: &TrafficRun, plan: &Plan, threads: usize) -> Manner {
    let check = match receiver.checking {
        Checking::Whole => Check::Whole,
        Checking::HeadersAndStamp => Check::HeadersAndStamp,
    };
    let (tag, stamp_offset) = plan.contents.stamps();
    Manner {
        inspector: Inspector::new(tag, stamp_offset, check),
        waiting: decide(receiver.waiting, threads),
        duration: Nanos(params.duration_ns),
        quiet: Nanos(params.drain.quiet_ns),
        timeout: Nanos(params.drain.timeout_ns),
    }
}

fn check_half(place: &str, port: &OpenPort, open: bool, twice: bool, does: &str) -> Result<(), ErrorObject> {
    let name = port.params.name.as_str();
    if !open {
        return Err(ErrorObject::params(
            format!("{place}: port '{name}' was not opened as one that {does}"),
            name,
        ));
    }
    if twice {
        return Err(ErrorObject::params(
            format!("{place}: port '{name}' {does} already in this trial"),
            name,
        ));
    }
    Ok(())
}

fn check_sizes(port: &OpenPort, plan: &Plan) -> Result<(), ErrorObject> {
    let (largest, name) = (plan.contents.largest_bytes(), &port.params.interface);
    let doing = format!("sending through port '{}'", port.params.name);
    port.interface.check(largest, plan.vlan_tags).map_err(|error| port_refused(&doing, name, &error))?;
    let most_bytes = usize::from(port.frame_bytes - FCS_BYTES);
    if largest > most_bytes {
        let frame_bytes = largest;
        let error =
            PortError::FrameOverPath { name: name.clone(), path: "this port", frame_bytes, most_bytes };
        return Err(port_refused(&doing, name, &error));
    }
    Ok(())
}

/// Select the wait mode: busy polling only if there are more CPUs than threads.
fn decide(waiting: Waiting, threads: usize) -> Waiting {
    if waiting != Waiting::Auto {
        return waiting;
    }
    let allowed = sched_getaffinity(Pid::from_raw(0)).map_or(1, |cpus| {
        (0..nix::sched::CpuSet::count()).filter(|&cpu| cpus.is_set(cpu).unwrap_or(false)).count()
    });
    if allowed > threads {
        Waiting::Busy
    } else {
        Waiting::Wait
    }
}

impl ReceiverRole<'_> {
    /// Return the number of flows with separate accounts.
    pub fn stamped_flows(&self) -> usize {
        self.unstamped_flow.unwrap_or(self.flow_count) as usize
    }

    /// Create an empty account, with the longest windows that fit in memory.
    pub fn account(&self) -> Result<Receiver, ErrorObject> {
        let share = (WINDOW_BITS / self.flow_count.max(1)).clamp(64, 65_536);
        let Self { flow_count, unstamped_flow, .. } = *self;
        let config = ReceiverConfig { flow_count, window_frames: 1 << share.ilog2(), unstamped_flow };
        Receiver::new(config).map_err(|error| bad_params("receivers", &error))
    }
}
