//! What sees the frames of one point: a program in the kernel, or `AF_PACKET`.

use iolab_port::{Hook, Interface, InterfaceCounters, InterfaceEye, KernelWatch, Mechanism, PortError, Way};
use iolab_protocol::watch::{WatchBy, WatchCounted, WatchHook, WatchPoint, WatchStart};
use iolab_protocol::ErrorObject;

use super::packets::PacketSight;
use crate::faults::port_refused;

/// Sees the frames of one point.
#[derive(Debug)]
pub struct Eye {
    /// It.
    pub(super) sight: Sight,
    /// Why it is nothing better.
    pub(super) fallback: Option<String>,
    hook: Hook,
    counters: Counters,
}

/// By what frames are seen.
#[derive(Debug)]
pub(super) enum Sight {
    /// A program counts.
    Kernel(KernelWatch),
    /// Packets are looked at one by one.
    Packet(Box<PacketSight>),
}

/// The interface's counters, from whichever namespace; and as they were before and after the beginning.
#[derive(Debug)]
struct Counters {
    interface: InterfaceEye,
    begin: [InterfaceCounters; 2],
}

/// Open a point's eye, in the calling thread's namespace.
///
/// # Errors
/// The error of a reply.
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
    /// Its name.
    pub(super) fn by(&self) -> &'static str {
        match &self.sight {
            Sight::Kernel(watch) => match watch.mechanism() {
                Mechanism::Tcx => "tcx",
                Mechanism::Clsact => "clsact",
            },
            Sight::Packet(_) => "af_packet",
        }
    }

    /// Stop seeing, and say what the interface counted meanwhile; nothing where it is gone.
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
