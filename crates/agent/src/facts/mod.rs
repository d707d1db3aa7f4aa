//! Verb `facts.read`: facts about this host and the features of its kernel.

mod cards;
mod daemons;
mod features;
mod machine;
mod offloads;
mod processors;
mod programs;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use iolab_protocol::calls::FactsRead;
use iolab_protocol::facts::{Facts, InterfaceFacts};

pub use machine::interfaces;

use crate::changes::setting::read_value;
use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::verbs::{verb, Verb};

/// Return the verb for facts.
pub fn verbs() -> [Verb; 1] {
    [verb("facts.read", |host, params| read(host, &params))]
}

/// Answer `facts.read`; slow parts run in parallel.
pub fn read(host: &Host, params: &FactsRead) -> Answer<Facts> {
    thread::scope(|scope| {
        let features =
            scope.spawn(|| if params.features { features::try_all(host) } else { BTreeMap::new() });
        let programs: Vec<_> = params
            .programs
            .iter()
            .map(|name| (name.clone(), scope.spawn(|| programs::version(host, name))))
            .collect();
        let mut facts = machine::read(host.host_interfaces.clone())?;
        // Interfaces that were read before the agent entered new namespaces are not accessible any more.
        if host.host_interfaces.is_none() {
            read_cards(host, &mut facts.interfaces);
        }
        facts.processors = processors::read(Path::new("/sys/devices/system"));
        facts.daemons = daemons::running(Path::new("/proc"));
        facts.settings = read_settings(&params.settings);
        facts.programs =
            programs.into_iter().map(|(name, thread)| (name, thread.join().unwrap_or(None))).collect();
        facts.features = features.join().unwrap_or_default();
        Ok(facts)
    })
}

fn read_cards(host: &Host, interfaces: &mut [InterfaceFacts]) {
    thread::scope(|scope| {
        for each in interfaces.iter_mut() {
            each.manager = daemons::manager(Path::new("/"), &each.name);
            if offloads::has_device(&each.name) {
                scope.spawn(|| {
                    each.offloads = offloads::read(host, &each.name);
                    cards::read(host, each);
                });
            }
        }
    });
}

/// Return the timeout of each program that is run. On an idle host all programs together take 50 ms; in an
/// emulated guest each takes a second if all start at once and load modules, and longer if several such
/// guests run.
fn patience(host: &Host) -> Duration {
    Duration::from_secs(if host.is_init { 15 } else { 5 })
}

fn read_settings(paths: &[String]) -> BTreeMap<String, Option<String>> {
    paths.iter().map(|path| (path.clone(), read_value(path, None).ok())).collect()
}
