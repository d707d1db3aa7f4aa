//! The frame counter of a measuring point: a program in the kernel, or `AF_PACKET`.

use iolab_port::{Hook, Interface, InterfaceCounters, InterfaceEye, KernelWatch, Mechanism, PortError, Way};
use iolab_protocol::watch::{WatchBy, WatchCounted, WatchHook, WatchPoint, WatchStart};
use iolab_protocol::ErrorObject;

use super::packets::PacketSight;
use crate::faults::port_refused;

/// The frame counter of one measuring point.
#[derive(Debug)]
pub struct Eye {
    /// Counting mechanism.
    pub(super) sight: Sight,
    /// Reason why a better mechanism is not used.
    pub(super) fallback: Option<String>,
    hook: Hook,
    counters: Counters,
}

/// The mechanism that counts frames.
#[derive(Debug)]
pub(super) enum Sight {
    /// Counting by a program in the kernel.
    Kernel(KernelWatch),
    /// Counting of individual packets in user space.
    Packet(Box<PacketSight>),
}

/// Interface counters, readable from any namespace, with their values before and after the start.
#[derive(Debug)]
struct Counters {
    interface: InterfaceEye,
    begin: [InterfaceCounters; 2],
}

/// Open the counter of a measuring point in the calling thread's namespace.
///
/// # Errors
/// Returns an error object for the reply.
pub fn open_eye(params: &WatchStart, point: &WatchPoint) -> Result<Eye, ErrorObject> {
    open(params, point).map_err(|error| port_refused("watching", &point.interface, &error))
}

fn open(params: &WatchStart, point: &WatchPoint) -> Result<Eye, PortError> {
    Interface::find(&point.interface)?;
    let interface = InterfaceEye::new(&point.interface)?;
    let hook = match point.hook {
        WatchHook::Ingress => Hook::Ingress,
        WatchHook::Egress => Hook::Egress,
    };
    let window_us = params.windows_ns.first().map_or(1, |window| window / 1_000);
    let window_us = u32::try_from(window_us).unwrap_or(u32::MAX);
    let flows = (params.flows > 0).then_some((params.flows, window_us));
    let before = interface.look()?.counters;
    let (sight, fallback) = match params.by {
        WatchBy::Packet => (by_packets(params, point)?, None),
        WatchBy::Bpf | WatchBy::Auto => match KernelWatch::open(&point.interface, hook, flows) {
            Ok(watch) => (Sight::Kernel(watch), None),
            Err(error) if params.by == WatchBy::Bpf => return Err(error),
            Err(error) => (by_packets(params, point)?, Some(error.to_string())),
        },
    };
    let begin = [before, interface.look()?.counters];
    Ok(Eye { sight, fallback, hook, counters: Counters { interface, begin } })
}

fn by_packets(params: &WatchStart, point: &WatchPoint) -> Result<Sight, PortError> {
    let way = match point.hook {
        WatchHook::Ingress => Way::In,
        WatchHook::Egress => Way::Out,
    };
    PacketSight::open(&point.interface, way, params.flows).map(Box::new).map(Sight::Packet)
}

impl Eye {
    /// Return the name of the counting mechanism.
    pub(super) fn by(&self) -> &'static str {
        match &self.sight {
            Sight::Kernel(watch) => match watch.mechanism() {
                Mechanism::Tcx => "tcx",
                Mechanism::Clsact => "clsact",
            },
            Sight::Packet(_) => "af_packet",
        }
    }

    /// Stop counting and return the range of the interface counters in the same time; none if the interface is gone.
    pub(super) fn close(&mut self) -> Option<WatchCounted> {
        let before = self.counters.look();
        if let Sight::Kernel(watch) = &mut self.sight {
            watch.detach();
        }
        let after = self.counters.look();
        let [begin, began] = self.counters.begin;
        let (before, after) = (before?, after?);
        let pick = |of: fn(&InterfaceCounters, Hook) -> u64| {
            let [first, second, third, fourth] =
                [&begin, &began, &before, &after].map(|counters| of(counters, self.hook));
            (third.saturating_sub(second), fourth.saturating_sub(first))
        };
        let (least_bytes, most_bytes) = pick(bytes);
        let (least_frames, most_frames) = pick(frames);
        Some(WatchCounted { least_bytes, most_bytes, least_frames, most_frames })
    }
}

impl Counters {
    fn look(&self) -> Option<InterfaceCounters> {
        self.interface.look().ok().map(|seen| seen.counters)
    }
}

const fn bytes(counters: &InterfaceCounters, hook: Hook) -> u64 {
    match hook {
        Hook::Ingress => counters.rx_bytes,
        Hook::Egress => counters.tx_bytes,
    }
}

const fn frames(counters: &InterfaceCounters, hook: Hook) -> u64 {
    match hook {
        Hook::Ingress => counters.rx_frames,
        Hook::Egress => counters.tx_frames,
    }
}
