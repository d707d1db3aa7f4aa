//! CPU settings, from the files in `/sys/devices/system`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iolab_protocol::facts::{IdleState, ProcessorFacts};

const NS_PER_US: u64 = 1000;

/// Read the CPU settings; `system` is `/sys/devices/system`, or a copy of it.
pub fn read(system: &Path) -> ProcessorFacts {
    let cpu = system.join("cpu");
    let policies = numbered(&cpu.join("cpufreq"), "policy");
    let first = policies.first();
    ProcessorFacts {
        online: text(&cpu.join("online")),
        smt: text(&cpu.join("smt/active")).and_then(|active| switch(&active)),
        cores: cores(&cpu),
        nodes: numbered(&system.join("node"), "node").into_iter().filter_map(node).collect(),
        driver: first.and_then(|policy| text(&policy.join("scaling_driver"))),
        governors: governors(&policies),
        available_governors: first
            .and_then(|policy| text(&policy.join("scaling_available_governors")))
            .map(|names| names.split_ascii_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        turbo: turbo(&cpu),
        idle_driver: text(&cpu.join("cpuidle/current_driver")).filter(|name| name != "none"),
        idle_states: idle_states(&cpu),
    }
}

/// Whether cores may exceed their nominal frequency; `intel_pstate` reports the inverse, other drivers report
/// `boost`.
fn turbo(cpu: &Path) -> Option<bool> {
    let refused = text(&cpu.join("intel_pstate/no_turbo")).and_then(|value| switch(&value));
    refused.map(|value| !value).or_else(|| text(&cpu.join("cpufreq/boost")).and_then(|value| switch(&value)))
}

fn governors(policies: &[PathBuf]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for policy in policies {
        let cpus = text(&policy.join("affected_cpus")).unwrap_or_default();
        if let Some(name) = text(&policy.join("scaling_governor")) {
            let own = cpus.split_ascii_whitespace().filter_map(|cpu| cpu.parse::<u32>().ok());
            found.entry(name).or_default().extend(own);
        }
    }
    found.into_iter().map(|(name, cpus)| (name, ranges(cpus))).collect()
}

/// Return the CPU list of each core, which is the same in the files of all CPUs of the core.
fn cores(cpu: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for each in numbered(cpu, "cpu") {
        if let Some(core) =
            text(&each.join("topology/thread_siblings_list")).filter(|core| !found.contains(core))
        {
            found.push(core);
        }
    }
    found
}

fn node(folder: PathBuf) -> Option<(String, String)> {
    let name = folder.file_name()?.to_string_lossy().strip_prefix("node")?.to_owned();
    Some((name, text(&folder.join("cpulist")).filter(|cpus| !cpus.is_empty())?))
}

/// Return the enabled idle states of the first CPU, shallowest first.
fn idle_states(cpu: &Path) -> Vec<IdleState> {
    let states = numbered(&cpu.join("cpu0/cpuidle"), "state").into_iter();
    let state = |folder: PathBuf| {
        let enabled = text(&folder.join("disable")).and_then(|value| switch(&value)) != Some(true);
        let exit_latency_us: u64 = text(&folder.join("latency"))?.parse().ok()?;
        let exit_latency_ns = exit_latency_us * NS_PER_US;
        enabled.then_some(IdleState { name: text(&folder.join("name"))?, exit_latency_ns })
    };
    states.filter_map(state).collect()
}

/// Return the folders whose names consist of a word and a number, sorted by number.
fn numbered(folder: &Path, word: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_string_lossy().strip_prefix(word)?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Format a CPU list as the kernel does: `0-2,5`.
fn ranges(mut cpus: Vec<u32>) -> String {
    cpus.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if cpu <= *last + 1 => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let written =
        runs.iter().map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") });
    written.collect::<Vec<String>>().join(",")
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files, each with its text.
    fn tree(files: &[(String, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, format!("{text}\n")).unwrap();
        }
        root
    }

    fn files(named: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        named.iter().map(|(path, text)| ((*path).to_owned(), *text)).collect()
    }

    #[test]
    fn intel_pstate_with_two_sockets_and_smt_is_parsed() {
        let mut wanted = files(&[
            ("cpu/online", "0-7"),
            ("cpu/smt/active", "1"),
            ("cpu/intel_pstate/no_turbo", "0"),
            ("cpu/cpuidle/current_driver", "intel_idle"),
            ("cpu/cpu0/cpuidle/state0/name", "POLL"),
            ("cpu/cpu0/cpuidle/state0/latency", "0"),
            ("cpu/cpu0/cpuidle/state1/name", "C6"),
            ("cpu/cpu0/cpuidle/state1/latency", "133"),
            ("cpu/cpu0/cpuidle/state2/name", "C8"),
            ("cpu/cpu0/cpuidle/state2/latency", "600"),
            ("cpu/cpu0/cpuidle/state2/disable", "1"),
            ("node/node0/cpulist", "0,2,4,6"),
            ("node/node1/cpulist", "1,3,5,7"),
        ]);
        for cpu in 0..8 {
            let siblings = ["0,4", "1,5", "2,6", "3,7"][cpu % 4];
            wanted.push((format!("cpu/cpu{cpu}/topology/thread_siblings_list"), siblings));
            let policy = format!("cpu/cpufreq/policy{cpu}");
            wanted.push((format!("{policy}/affected_cpus"), ["0", "1", "2", "3", "4", "5", "6", "7"][cpu]));
            wanted.push((
                format!("{policy}/scaling_governor"),
                if cpu == 3 { "performance" } else { "powersave" },
            ));
            wanted.push((format!("{policy}/scaling_driver"), "intel_pstate"));
            wanted.push((format!("{policy}/scaling_available_governors"), "performance powersave"));
        }
        let seen = read(tree(&wanted).path());
        assert_eq!(seen.online.as_deref(), Some("0-7"));
        assert_eq!((seen.smt, seen.turbo), (Some(true), Some(true)));
        assert_eq!(seen.cores, ["0,4", "1,5", "2,6", "3,7"]);
        assert_eq!(seen.nodes["1"], "1,3,5,7");
        assert_eq!(seen.driver.as_deref(), Some("intel_pstate"));
        assert_eq!(
            (seen.governors["performance"].as_str(), seen.governors["powersave"].as_str()),
            ("3", "0-2,4-7")
        );
        assert_eq!(seen.available_governors, ["performance", "powersave"]);
        let states: Vec<(&str, u64)> =
            seen.idle_states.iter().map(|state| (state.name.as_str(), state.exit_latency_ns)).collect();
        assert_eq!(states, [("POLL", 0), ("C6", 133_000)]);
    }

    #[test]
    fn acpi_cpufreq_with_one_policy_and_boost_is_parsed() {
        let seen = read(
            tree(&files(&[
                ("cpu/online", "0-3"),
                ("cpu/smt/active", "0"),
                ("cpu/cpufreq/boost", "0"),
                ("cpu/cpufreq/policy0/affected_cpus", "0 1 2 3"),
                ("cpu/cpufreq/policy0/scaling_governor", "schedutil"),
                ("cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq"),
                ("cpu/cpuidle/current_driver", "acpi_idle"),
            ]))
            .path(),
        );
        assert_eq!((seen.smt, seen.turbo), (Some(false), Some(false)));
        assert_eq!(seen.governors["schedutil"], "0-3");
        assert_eq!(seen.driver.as_deref(), Some("acpi-cpufreq"));
    }

    #[test]
    fn virtual_machine_without_cpu_frequencies_has_no_frequency_facts() {
        let seen = read(
            tree(&files(&[
                ("cpu/online", "0-1"),
                ("cpu/cpuidle/current_driver", "none"),
                ("node/node0/cpulist", "0-1"),
            ]))
            .path(),
        );
        assert_eq!(seen.online.as_deref(), Some("0-1"));
        assert_eq!((seen.smt, seen.turbo, seen.driver, seen.idle_driver), (None, None, None, None));
        assert!(seen.governors.is_empty());
        assert_eq!(read(Path::new("/nowhere")), ProcessorFacts::default());
    }
}
