//! Answer `facts.read`: what this host is and what its kernel can make.

mod features;
mod machine;
mod programs;

use std::collections::BTreeMap;
use std::thread;

use iolab_protocol::calls::FactsRead;
use iolab_protocol::facts::Facts;

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
        facts.settings = read_settings(&params.settings);
        facts.programs =
            programs.into_iter().map(|(name, thread)| (name, thread.join().unwrap_or(None))).collect();
        facts.features = features.join().unwrap_or_default();
        Ok(facts)
    })
}

fn read_settings(paths: &[String]) -> BTreeMap<String, Option<String>> {
    paths.iter().map(|path| (path.clone(), read_value(path, None).ok())).collect()
}
