//! Verbs `traffic.open`, `traffic.record`, `traffic.run` and `traffic.close`, with the table of port sets and
//! their namespaces. The traffic crate runs the trials.

use std::sync::Arc;

use iolab_protocol::results::Done;
use iolab_protocol::traffic::{
    PortParams, TrafficClose, TrafficOpen, TrafficOpened, TrafficRan, TrafficRecord, TrafficRecorded,
    TrafficRun,
};
use iolab_protocol::ErrorObject;
use iolab_traffic::{OpenPort, PortSet};

use crate::changes::programs_kept;
use crate::host::Host;
use crate::kernel::clock::now_ns;
use crate::kernel::faults::Answer;
use crate::kernel::netns;
use crate::verbs::{verb, Verb};

/// Return the verbs for traffic.
pub fn verbs() -> [Verb; 4] {
    [
        verb("traffic.open", |host, params| open(host, &params)),
        verb("traffic.run", |host, params| run(host, &params)),
        verb("traffic.record", |host, params| record(host, &params)),
        verb("traffic.close", |host, params| close(host, &params)),
    ]
}

/// Answer `traffic.open`.
pub fn open(host: &Host, params: &TrafficOpen) -> Answer<TrafficOpened> {
    check(params)?;
    let _change = host.may_change()?;
    let begin_ns = now_ns();
    let reserved = host.traffic.reserve(&params.id)?;
    let mut kept = Vec::new();
    let opened = keep_programs(host, &params.ports, &mut kept).and_then(|()| open_all(&params.ports));
    if opened.is_err() {
        programs_kept::forget(host, &kept)?;
    }
    let set = PortSet::new(opened?);
    let ports = set.ports.iter().map(OpenPort::describe).collect();
    reserved.fill(Arc::new(set));
    Ok(TrafficOpened { ports, begin_ns, end_ns: now_ns() })
}

fn keep_programs(host: &Host, ports: &[PortParams], kept: &mut Vec<u64>) -> Answer<()> {
    for port in ports {
        kept.extend(programs_kept::keep(host, port)?);
    }
    Ok(())
}

fn check(params: &TrafficOpen) -> Answer<()> {
    if params.ports.is_empty() || params.ports.len() > MOST_PORTS {
        return Err(ErrorObject::params(format!("'ports' has 1 to {MOST_PORTS} ports"), params.ports.len()));
    }
    for (place, port) in params.ports.iter().enumerate() {
        let before = &params.ports[..place];
        if before.iter().any(|other| other.name == port.name) {
            return Err(ErrorObject::params("each port of a set has a name of its own", port.name.as_str()));
        }
        let same = |other: &PortParams| other.interface == port.interface && other.netns == port.netns;
        if before.iter().any(same) {
            return Err(ErrorObject::params(
                "each port of a set has an interface of its own; one port both sends and receives",
                port.interface.as_str(),
            ));
        }
    }
    Ok(())
}

fn open_all(ports: &[PortParams]) -> Answer<Vec<OpenPort>> {
    let mut opened = Vec::with_capacity(ports.len());
    for params in ports {
        match netns::within(params.netns.as_deref(), || OpenPort::open(params)) {
            Ok(port) => opened.push(port),
            Err(error) => {
                opened.iter().for_each(close_port);
                return Err(error);
            }
        }
    }
    Ok(opened)
}

/// Close a port in the namespace of its interface. There, the port restores the XDP program that it replaced.
fn close_port(port: &OpenPort) {
    let closed = netns::within(port.params.netns.as_deref(), || {
        port.close();
        Ok(())
    });
    if closed.is_err() {
        // The namespace's name no longer exists; close the descriptors nevertheless.
        port.close();
    }
}

fn close_set(set: &PortSet) {
    set.stop();
    set.ports.iter().for_each(close_port);
}

/// Close all port sets when the agent shuts down.
pub fn close_all(host: &Host) {
    host.traffic.take_all().iter().for_each(|set| close_set(set));
}

/// Answer `traffic.run`.
pub fn run(host: &Host, params: &TrafficRun) -> Answer<TrafficRan> {
    host.traffic.find(&params.id)?.run(params)
}

/// Answer `traffic.record`.
pub fn record(host: &Host, params: &TrafficRecord) -> Answer<TrafficRecorded> {
    host.traffic.find(&params.id)?.recordings.take(params)
}

/// Answer `traffic.close`.
pub fn close(host: &Host, params: &TrafficClose) -> Answer<Done> {
    let set = host.traffic.take(&params.id)?;
    close_set(&set);
    programs_kept::put_back(host, set.ports.iter().map(|port| &port.params));
    Ok(Done {})
}

const MOST_PORTS: usize = 64;
