//! Verbs `capture.start`, `capture.stop`, `capture.read` and `capture.close`, with the table of captures and
//! their namespaces.

use iolab_protocol::capture::{
    CaptureName, CapturePart, CaptureRead, CaptureStart, CaptureStarted, Captured,
};
use iolab_protocol::results::Done;
use iolab_traffic::{start_capture, RunningCapture};

use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::kernel::netns;
use crate::verbs::{verb, Verb};

/// Return the verbs for captures.
pub fn verbs() -> [Verb; 4] {
    [
        verb("capture.start", |host, params| start(host, &params)),
        verb("capture.stop", |host, params| stop(host, &params)),
        verb("capture.read", |host, params| read(host, &params)),
        verb("capture.close", |host, params| close(host, &params)),
    ]
}

/// Answer `capture.start`.
pub fn start(host: &Host, params: &CaptureStart) -> Answer<CaptureStarted> {
    let _change = host.may_change()?;
    let reserved = host.captures.reserve(&params.id)?;
    let capture = netns::within(params.netns.as_deref(), || start_capture(params))?;
    let started = capture.describe();
    reserved.fill(capture);
    Ok(started)
}

/// Answer `capture.stop`.
pub fn stop(host: &Host, params: &CaptureName) -> Answer<Captured> {
    host.captures.with_mut(&params.id, RunningCapture::stop)?
}

/// Answer `capture.read`.
pub fn read(host: &Host, params: &CaptureRead) -> Answer<CapturePart> {
    host.captures.with(&params.id, |capture| capture.read(params))?
}

/// Answer `capture.close`.
pub fn close(host: &Host, params: &CaptureName) -> Answer<Done> {
    drop(host.captures.take(&params.id)?);
    Ok(Done {})
}
