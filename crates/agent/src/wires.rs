//! Answer `wire.start`, `wire.change`, `wire.read` and `wire.stop`: which wires there are, and in which namespaces they end.

mod apart;

use iolab_protocol::results::Done;
use iolab_protocol::wire::{WireChange, WireCounts, WireEnd, WireName, WireRead, WireStart, WireStarted};
use iolab_protocol::ErrorObject;
use iolab_traffic::{open_end, RunningWire};

use crate::faults::Answer;
use crate::host::Host;
use crate::netns;
use crate::verbs::{verb, Verb};

/// The methods of wires.
pub fn verbs() -> [Verb; 4] {
    [
        verb("wire.start", |host, params| start(host, &params)),
        verb("wire.change", |host, params| change(host, &params)),
        verb("wire.read", |host, params| read(host, &params)),
        verb("wire.stop", |host, params| stop(host, &params)),
    ]
}

/// Answer `wire.start`.
pub fn start(host: &Host, params: &WireStart) -> Answer<WireStarted> {
    let _change = host.may_change()?;
    if params.ends[0] == params.ends[1] {
        return Err(ErrorObject::params("the ends of a wire are two interfaces", params.id.as_str()));
    }
    let reserved = host.wires.reserve(&params.id)?;
    let open = |end: &WireEnd| {
        netns::within(end.netns.as_deref(), || open_end(&params.id, &end.interface, params.super_frames))
    };
    let taps = [open(&params.ends[0])?, open(&params.ends[1])?];
    let (cpu, not_apart) = match params.apart.then(|| apart::seat(params, host.wires.len())) {
        None => (params.cpu, None),
        Some(Ok(cpu)) => (Some(cpu), None),
        Some(Err(why)) => (params.cpu, Some(why)),
    };
    let wire = RunningWire::start(&WireStart { cpu, ..params.clone() }, taps)?;
    let started = WireStarted { not_apart, ..wire.describe() };
    reserved.fill(wire);
    Ok(started)
}

/// Answer `wire.change`.
pub fn change(host: &Host, params: &WireChange) -> Answer<Done> {
    let _change = host.may_change()?;
    host.wires.with_mut(&params.id, |wire| wire.change(&params.ways))?.map(|()| Done {})
}

/// Answer `wire.read`.
pub fn read(host: &Host, params: &WireRead) -> Answer<WireCounts> {
    host.wires.with_mut(&params.id, |wire| wire.read(params.stalls_since_ns))?
}

/// Answer `wire.stop`.
pub fn stop(host: &Host, params: &WireName) -> Answer<WireCounts> {
    host.wires.take(&params.id)?.read(None)
}
