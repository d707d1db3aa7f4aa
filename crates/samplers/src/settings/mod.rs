//! Settings in effect for the traffic of a network namespace: sysctls of its stack, and settings of each
//! interface. Settings that the kernel does not report are omitted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use iolab_protocol::observations::SettingValues;

use crate::links::Link;

/// Settings of the network stack of a namespace, by sysctl name.
const STACK: [&str; 9] = [
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_sack",
    "net.core.rmem_default",
    "net.core.wmem_default",
    "net.core.rmem_max",
    "net.core.wmem_max",
];
const LOOPBACK: &str = "lo";
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

/// Read the settings in the namespace of the calling thread, whose interfaces are `links`.
pub fn read(links: &[Link]) -> Vec<SettingValues> {
    let mut found =
        vec![stack(|name| fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok())];
    found.extend(links.iter().filter(|link| link.name != LOOPBACK).map(|link| {
        let mut values: BTreeMap<_, _> = iolab_sys::driver_settings(&link.name)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        values.insert("mtu".to_owned(), link.mtu.to_string());
        SettingValues { place: "interface".to_owned(), name: link.name.clone(), values }
    }));
    found
}

/// Return the settings of the network stack; `text` returns the value of a sysctl.
fn stack(text: impl Fn(&str) -> Option<String>) -> SettingValues {
    let words = |text: String| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let values = STACK.iter().filter_map(|&name| Some((name.to_owned(), words(text(name)?)))).collect();
    SettingValues { place: "stack".to_owned(), name: String::new(), values }
}

/// Return the frequency governor of each group of CPUs; empty without frequency scaling.
pub fn processors() -> Vec<SettingValues> {
    let text =
        |policy: &Path, name: &str| Some(fs::read_to_string(policy.join(name)).ok()?.trim().to_owned());
    let policies = fs::read_dir(POLICIES).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut cpus: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for policy in policies {
        if let Some((governor, own)) = text(&policy, "scaling_governor").zip(text(&policy, "related_cpus")) {
            cpus.entry(governor).or_default().extend(own.split_ascii_whitespace().map(str::to_owned));
        }
    }
    let of = |(governor, mut own): (String, Vec<String>)| {
        own.sort_by_key(|cpu| cpu.parse::<u32>().unwrap_or(u32::MAX));
        let values = BTreeMap::from([("governor".to_owned(), governor)]);
        SettingValues { place: "processors".to_owned(), name: own.join(","), values }
    };
    cpus.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_values_contain_single_spaces_and_missing_settings_are_omitted() {
        let text = |name: &str| (name == "net.ipv4.tcp_rmem").then(|| "4096\t131072\t6291456\n".to_owned());
        let found = stack(text);
        assert_eq!(
            found.values,
            BTreeMap::from([("net.ipv4.tcp_rmem".to_owned(), "4096 131072 6291456".to_owned())])
        );
    }

    #[test]
    fn congestion_control_of_the_current_namespace_is_read() {
        let found = read(&[Link { name: LOOPBACK.to_owned(), ..Link::default() }]);
        assert_eq!(found.len(), 1, "the loopback interface carries nothing of a lab");
        assert!(found[0].values.contains_key("net.ipv4.tcp_congestion_control"));
    }
}
