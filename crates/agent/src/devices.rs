//! Answer `device.start`, `device.read` and `device.stop`: which devices there are, and in which namespaces.

use std::collections::HashMap;
use std::sync::Mutex;

use iolab_protocol::device::{DeviceCounts, DeviceName, DeviceStart, DeviceStarted};
use iolab_protocol::ErrorObject;
use iolab_traffic::RunningDevice;

use crate::faults::Answer;
use crate::host::Host;
use crate::netns;
use crate::sync::lock;

/// The devices in place, by the controller's name.
#[derive(Default)]
pub struct Devices {
    table: Mutex<HashMap<String, RunningDevice>>,
}

impl Devices {
    /// Take all of them away, as the agent ends.
    pub fn stop_all(&self) {
        lock(&self.table).clear();
    }
}

/// Answer `device.start`.
pub fn start(host: &Host, params: &DeviceStart) -> Answer<DeviceStarted> {
    let _change = host.may_change()?;
    // Held meanwhile: starting takes milliseconds, and no id is given twice.
    let mut table = lock(&host.devices.table);
    if table.contains_key(&params.id) {
        return Err(ErrorObject::params(
            "a device of that id is in place; stop it first",
            params.id.as_str(),
        ));
    }
    let device = netns::within(params.netns.as_deref(), || RunningDevice::start(params))?;
    let started = device.describe();
    table.insert(params.id.clone(), device);
    Ok(started)
}

/// Answer `device.read`.
pub fn read(host: &Host, params: &DeviceName) -> Answer<DeviceCounts> {
    lock(&host.devices.table).get(&params.id).ok_or_else(|| unknown(params))?.read()
}

/// Answer `device.stop`.
pub fn stop(host: &Host, params: &DeviceName) -> Answer<DeviceCounts> {
    lock(&host.devices.table).remove(&params.id).ok_or_else(|| unknown(params))?.read()
}

fn unknown(params: &DeviceName) -> ErrorObject {
    let id = params.id.as_str();
    ErrorObject::unknown(format!("there is no device '{id}'"), id)
}
