//! Verbs `wire.start`, `wire.change`, `wire.restart_draws`, `wire.read` and `wire.stop`, with the table of
//! emulated links and the namespaces of their ends.

mod apart;

use iolab_protocol::results::Done;
use iolab_protocol::wire::{
    WireCarried, WireChange, WireCounts, WireName, WireRead, WireRestartDraws, WireStart, WireStarted,
};
use iolab_protocol::ErrorObject;
use iolab_sys::tap::Unfinished;
use iolab_traffic::{open_end, Arrival, Carrier, RunningWire};

use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::kernel::netns;
use crate::verbs::{verb, Verb};

/// Return the verbs for emulated links.
pub fn verbs() -> [Verb; 5] {
    [
        verb("wire.start", |host, params| start(host, &params)),
        verb("wire.change", |host, params| change(host, &params)),
        verb("wire.restart_draws", |host, params| restart_draws(host, &params)),
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
    let open = |index: usize, by: Carrier| {
        let end = &params.ends[index];
        netns::within(end.netns.as_deref(), || open_end(&params.id, &end.interface, by))
    };
    let both = |by: Carrier| Ok([open(0, by)?, open(1, by)?]);
    let what = if params.super_frames { Unfinished::SuperFrames } else { Unfinished::Checksums };
    // With a real-time priority, exact times take precedence over throughput: frames arrive without GRO.
    let arrival = if params.priority.is_some() { Arrival::Apart } else { Arrival::Joined };
    let (ends, no_veth) =
        match params.veth_frame_bytes.map(|frame_bytes| both(Carrier::Veth(frame_bytes, arrival))) {
            None => (both(Carrier::Tap(what))?, None),
            Some(Ok(ends)) => (ends, None),
            Some(Err(error)) => (both(Carrier::Tap(what))?, Some(error.message)),
        };
    let (cpu, steering, not_apart) = match params.apart.then(|| apart::seat(params, host.wires.len())) {
        None => (params.cpu, None, None),
        Some(Ok(seat)) => (Some(seat.cpu), seat.steering, None),
        Some(Err(why)) => (params.cpu, None, Some(why)),
    };
    let lacks = WireCarried { no_veth, not_apart, ..WireCarried::default() };
    let wire = RunningWire::start(&WireStart { cpu, ..params.clone() }, ends, steering, lacks)?;
    let started = wire.describe();
    reserved.fill(wire);
    Ok(started)
}

/// Answer `wire.change`.
pub fn change(host: &Host, params: &WireChange) -> Answer<Done> {
    let _change = host.may_change()?;
    host.wires.with_mut(&params.id, |wire| wire.change(&params.ways))?.map(|()| Done {})
}

/// Answer `wire.restart_draws`.
pub fn restart_draws(host: &Host, params: &WireRestartDraws) -> Answer<Done> {
    let _change = host.may_change()?;
    host.wires.with_mut(&params.id, |wire| wire.restart_draws(params.seeds))?.map(|()| Done {})
}

/// Answer `wire.read`.
pub fn read(host: &Host, params: &WireRead) -> Answer<WireCounts> {
    host.wires.with_mut(&params.id, |wire| wire.read(params.stalls_since_ns))?
}

/// Answer `wire.stop`.
pub fn stop(host: &Host, params: &WireName) -> Answer<WireCounts> {
    host.wires.take(&params.id)?.read(None)
}
