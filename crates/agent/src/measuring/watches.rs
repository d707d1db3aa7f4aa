//! Verbs `watch.start`, `watch.stop`, `watch.read` and `watch.close`, with the table of watches and their
//! namespaces.

use iolab_protocol::results::Done;
use iolab_protocol::watch::{WatchName, WatchPart, WatchPoint, WatchRead, WatchStart, WatchStarted, Watched};
use iolab_traffic::{check_watch, open_eye, RunningWatch};

use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::kernel::netns;
use crate::verbs::{verb, Verb};

/// Return the verbs for watches.
pub fn verbs() -> [Verb; 4] {
    [
        verb("watch.start", |host, params| start(host, &params)),
        verb("watch.stop", |host, params| stop(host, &params)),
        verb("watch.read", |host, params| read(host, &params)),
        verb("watch.close", |host, params| close(host, &params)),
    ]
}

/// Answer `watch.start`.
pub fn start(host: &Host, params: &WatchStart) -> Answer<WatchStarted> {
    check_watch(params)?;
    let _change = host.may_change()?;
    let reserved = host.watches.reserve(&params.id)?;
    let open = |point: &WatchPoint| {
        netns::within(point.netns.as_deref(), || {
            if point.netns.is_some() {
                // Without permission to mount, the agent cannot load BPF programs either, and AF_PACKET needs
                // no `/sys`.
                let _ = netns::mount_own_sys();
            }
            open_eye(params, point)
        })
    };
    let eyes = params.points.iter().map(open).collect::<Answer<_>>()?;
    let watch = RunningWatch::start(params, eyes)?;
    let started = watch.describe();
    reserved.fill(watch);
    Ok(started)
}

/// Answer `watch.stop`.
pub fn stop(host: &Host, params: &WatchName) -> Answer<Watched> {
    host.watches.with_mut(&params.id, RunningWatch::stop)?
}

/// Answer `watch.read`.
pub fn read(host: &Host, params: &WatchRead) -> Answer<WatchPart> {
    host.watches.with(&params.id, |watch| watch.read(params))?
}

/// Answer `watch.close`.
pub fn close(host: &Host, params: &WatchName) -> Answer<Done> {
    drop(host.watches.take(&params.id)?);
    Ok(Done {})
}
