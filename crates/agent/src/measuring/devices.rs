//! Verbs `device.start`, `device.read` and `device.stop`, with the table of devices and their namespaces.

use iolab_protocol::device::{DeviceCounts, DeviceName, DeviceStart, DeviceStarted};
use iolab_traffic::RunningDevice;

use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::kernel::netns;
use crate::verbs::{verb, Verb};

/// Return the verbs for devices.
pub fn verbs() -> [Verb; 3] {
    [
        verb("device.start", |host, params| start(host, &params)),
        verb("device.read", |host, params| read(host, &params)),
        verb("device.stop", |host, params| stop(host, &params)),
    ]
}

/// Answer `device.start`.
pub fn start(host: &Host, params: &DeviceStart) -> Answer<DeviceStarted> {
    let _change = host.may_change()?;
    let reserved = host.devices.reserve(&params.id)?;
    let device = netns::within(params.netns.as_deref(), || RunningDevice::start(params))?;
    let started = device.describe();
    reserved.fill(device);
    Ok(started)
}

/// Answer `device.read`.
pub fn read(host: &Host, params: &DeviceName) -> Answer<DeviceCounts> {
    host.devices.with(&params.id, RunningDevice::read)?
}

/// Answer `device.stop`.
pub fn stop(host: &Host, params: &DeviceName) -> Answer<DeviceCounts> {
    host.devices.take(&params.id)?.read()
}
