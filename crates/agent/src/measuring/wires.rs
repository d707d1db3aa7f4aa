//! Verbs `wire.start`, `wire.change`, `wire.restart_draws`, `wire.read` and `wire.stop`, with the table of
//! emulated links and the namespaces of their ends.

mod apart;

use iolab_protocol::results::Done;
use iolab_protocol::wire::{
    WireCarried, WireChange, WireCounts, WireName, WirePort, WireRead, WireRestartDraws, WireStart,
    WireStarted,
};
use iolab_protocol::{ErrorObject, Undo};
use iolab_sys::tap::Unfinished;
use iolab_traffic::{
    attach_to_port, open_end, open_on_port, Arrival, Carrier, End, PortRedirect, RunningWire,
};

use crate::changes::undo::undo_changes;
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
    let veth = params.veth_frame_bytes.map(|frame_bytes| Carrier::Veth(frame_bytes, arrival));
    let (ends, redirect, no_veth) = match (&params.on_port, veth) {
        (Some(port), _) => {
            let (ends, redirect) = open_with_port(host, params, port, what)?;
            (ends, Some(redirect), None)
        }
        (None, None) => (both(Carrier::Tap(what))?, None, None),
        (None, Some(veth)) => match both(veth) {
            Ok(ends) => (ends, None, None),
            Err(error) => (both(Carrier::Tap(what))?, None, Some(error.message)),
        },
    };
    let (cpu, steering, not_apart) = match params.apart.then(|| apart::seat(params, host.wires.len())) {
        None => (params.cpu, None, None),
        Some(Ok(seat)) => (Some(seat.cpu), seat.steering, None),
        Some(Err(why)) => (params.cpu, None, Some(why)),
    };
    let lacks = WireCarried { no_veth, not_apart, ..WireCarried::default() };
    let wire = RunningWire::start(&WireStart { cpu, ..params.clone() }, ends, redirect, steering, lacks)?;
    let started = wire.describe();
    reserved.fill(wire);
    Ok(started)
}

/// Create the taps of an emulated link on an existing port, and attach the programs that redirect the port's frames.
/// Programs that would outlive this process are in the journal first.
fn open_with_port(
    host: &Host,
    params: &WireStart,
    port: &WirePort,
    what: Unfinished,
) -> Answer<([End; 2], PortRedirect)> {
    let netns = params.ends[0].netns.as_deref();
    if netns != params.ends[1].netns.as_deref() {
        let message = "both ends of a wire on a port are in the port's namespace";
        return Err(ErrorObject::params(message, params.id.as_str()));
    }
    let (ends, mut redirect) = netns::within(netns, || open_on_port(params, port, what))?;
    if let Some(script) = redirect.undo() {
        let argv = vec!["sh".to_owned(), "-c".to_owned(), script];
        host.record(&undo_key(&params.id), Undo::Command { argv, netns: netns.map(str::to_owned) })?;
    }
    netns::within(netns, || attach_to_port(params, port, &mut redirect))?;
    Ok((ends, redirect))
}

fn undo_key(id: &str) -> String {
    format!("port:{id}")
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
    let counts = host.wires.take(&params.id)?.read(None);
    // The drop of the link has detached its programs from a port; this marks them as removed in the journal.
    undo_changes(host, &host.journal, Some(&[undo_key(&params.id)]));
    counts
}
