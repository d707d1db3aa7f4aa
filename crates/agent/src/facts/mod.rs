//! Answer `facts.read`: what this host is and what its kernel can make.

mod features;
mod machine;
mod offloads;
mod programs;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use iolab_protocol::calls::FactsRead;
use iolab_protocol::facts::{Facts, InterfaceFacts};

pub use machine::interfaces;

use crate::faults::Answer;
use crate::host::Host;
use crate::setting::read_value;

/// Answer `facts.read`; what takes time is done side by side.
pub fn read(host: &Host, params: &FactsRead) -> Answer<Facts> {
    thread::scope(|scope| {
        let features = scope.spawn(|| features::try_all(host));
        let programs: Vec<_> = params
            .programs
            .iter()
            .map(|name| (name.clone(), scope.spawn(|| programs::version(host, name))))
            .collect();
        let mut facts = machine::read(host.host_interfaces.clone())?;
        // Interfaces seen before the agent entered namespaces of its own cannot be asked any more.
        if host.host_interfaces.is_none() {
            read_offloads(host, &mut facts.interfaces);
        }
        facts.settings = read_settings(&params.settings);
        facts.programs =
            programs.into_iter().map(|(name, thread)| (name, thread.join().unwrap_or(None))).collect();
        facts.features = features.join().unwrap_or_default();
        Ok(facts)
    })
}

fn read_offloads(host: &Host, interfaces: &mut [InterfaceFacts]) {
    thread::scope(|scope| {
        for each in interfaces.iter_mut().filter(|each| offloads::has_device(&each.name)) {
            scope.spawn(|| each.offloads = offloads::read(host, &each.name));
        }
    });
}

/// How long each program that is asked may take. On a calm computer all take 50 ms; in an emulated guest each takes a second when all
/// are started at once and modules are loaded, in a guest of that many.
fn patience(host: &Host) -> Duration {
    Duration::from_secs(if host.is_init { 15 } else { 5 })
}

fn read_settings(paths: &[String]) -> BTreeMap<String, Option<String>> {
    paths.iter().map(|path| (path.clone(), read_value(path, None).ok())).collect()
}
