//! Detection of kernel features: each feature is tried in a temporary network namespace, which is removed
//! with the program that uses it.

use std::collections::BTreeMap;
use std::path::Path;

use iolab_protocol::calls::SettingWrite;
use iolab_sys::socket;

use crate::changes::setting;
use crate::changes::undo::undo_changes;
use crate::facts::patience;
use crate::host::Host;
use crate::programs::launch::Place;
use crate::programs::spawn::Program;

/// Features, each with the `ip -batch` line that tries it.
const LINKS: [(&str, &str); 15] = [
    ("link:veth", "link add v0 type veth peer name v1"),
    ("link:bridge", "link add b0 type bridge"),
    ("link:vlan", "link add link b0 name b0.5 type vlan id 5"),
    ("link:macvtap", "link add link v0 name m0 type macvtap"),
    ("link:macvlan", "link add link v1 name n0 type macvlan"),
    ("link:ipvlan", "link add link b0 name o0 type ipvlan"),
    ("link:ifb", "link add i0 type ifb"),
    ("link:vxlan", "link add x0 type vxlan id 5 dstport 4789"),
    ("link:gre", "link add g0 type gre local 198.18.0.1 remote 198.18.0.2"),
    ("link:gretap", "link add g1 type gretap local 198.18.0.1 remote 198.18.0.2"),
    ("link:ip6gre", "link add g2 type ip6gre local 2001:2::1 remote 2001:2::2"),
    ("link:ip6gretap", "link add g3 type ip6gretap local 2001:2::1 remote 2001:2::2"),
    ("link:wireguard", "link add w0 type wireguard"),
    ("link:bond", "link add d0 type bond"),
    ("ip:6", "addr add 2001:2::1/64 dev lo nodad"),
];

/// Features, each with the `tc -batch` line that tries it. The filter requires the htb qdisc, so it is
/// second.
const QUEUES: [(&str, &str); 9] = [
    ("qdisc:htb", "qdisc replace dev lo root handle 1: htb"),
    ("filter:u32", "filter add dev lo parent 1: protocol ip u32 match ip dst 198.18.0.1/32 flowid 1:1"),
    ("qdisc:tbf", "qdisc replace dev lo root handle 2: tbf rate 1mbit burst 10kb latency 10ms"),
    ("qdisc:netem", "qdisc replace dev lo root handle 3: netem delay 1ms"),
    ("qdisc:fq", "qdisc replace dev lo root handle 4: fq"),
    ("qdisc:sfq", "qdisc replace dev lo root handle 6: sfq"),
    ("qdisc:codel", "qdisc replace dev lo root handle 7: codel"),
    ("qdisc:fq_codel", "qdisc replace dev lo root handle 8: fq_codel"),
    ("qdisc:etf", "qdisc replace dev lo root handle 5: etf clockid CLOCK_TAI delta 100000"),
];

/// Feature: the kernel reports drop reasons to this process.
const DROP_REASONS: &str = "trace:drop-reasons";

/// Feature: the kernel accepts nftables rules; unknown if nft is not installed.
const FIREWALL: (&str, [&str; 3]) = ("firewall:nftables", ["nft", "list", "tables"]);

/// Prerequisites of features: if the prerequisite is missing, the feature cannot be tried.
const NEEDS: [(&str, &str); 5] = [
    ("link:vlan", "link:bridge"),
    ("link:macvtap", "link:veth"),
    ("link:macvlan", "link:veth"),
    ("link:ipvlan", "link:bridge"),
    ("filter:u32", "qdisc:htb"),
];

/// Congestion controls of TCP. Each is set on a socket, so that the kernel loads its module.
const CONGESTION: [&str; 17] = [
    "reno",
    "cubic",
    "bbr",
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// Exit status of a shell and of the agent's launcher for a program that does not exist.
const NO_PROGRAM: i32 = 127;

/// Try all features.
pub fn try_all(host: &Host) -> BTreeMap<String, Option<bool>> {
    load_without_devices(host);
    let (links, queues) = std::thread::scope(|scope| {
        let links = scope.spawn(|| try_batch(host, "ip", &LINKS));
        let queues = try_batch(host, "tc", &QUEUES);
        (links.join().unwrap_or_default(), queues)
    });
    let made: BTreeMap<&str, Option<bool>> = links.into_iter().chain(queues).collect();
    let tried = |feature: &str| {
        let need = NEEDS.iter().find(|(each, _)| *each == feature).map(|(_, need)| *need);
        let possible = need.is_none_or(|need| made.get(need) == Some(&Some(true)));
        made.get(feature).copied().flatten().filter(|_| possible)
    };
    let reasons = (DROP_REASONS.to_owned(), Some(iolab_samplers::drops::reasons::available()));
    let congestion = CONGESTION.map(|name| (format!("congestion:{name}"), Some(controls(name))));
    let tried = made.keys().map(|feature| ((*feature).to_owned(), tried(feature)));
    let firewall = (FIREWALL.0.to_owned(), try_firewall(host));
    tried.chain([reasons, firewall]).chain(congestion).collect()
}

/// List the nftables tables of an empty namespace; this fails if the kernel lacks the module.
fn try_firewall(host: &Host) -> Option<bool> {
    let argv = FIREWALL.1.map(str::to_owned).to_vec();
    let program = Program { argv, place: Place::Fresh, capture_bytes: 1024, ..Program::default() };
    let ran = host.run(program, patience(host)).ok().filter(|ran| !ran.timed_out)?;
    ran.end.ending.exit_status.filter(|status| *status != NO_PROGRAM).map(|status| status == 0)
}

/// Whether the kernel supports a congestion control for sockets of this process.
fn controls(name: &str) -> bool {
    socket::control_congestion(name).is_ok()
}

/// Load modules with parameters that prevent default interfaces. If the kernel loaded them automatically,
/// they would create interfaces outside the namespace of the test.
///
/// If loading is not permitted or the kernel lacks a module, the test of the feature fails.
fn load_without_devices(host: &Host) {
    let absent = |module: &str| !Path::new("/sys/module").join(module).exists();
    for words in [["ifb", "numifbs=0"], ["bonding", "max_bonds=0"]] {
        if absent(words[0]) {
            load(host, &words);
        }
    }
    let tunnels: Vec<&str> = ["ip_gre", "ip6_gre"].into_iter().filter(|module| absent(module)).collect();
    if !tunnels.is_empty() {
        load_tunnels(host, &tunnels);
    }
}

/// Load modules that create a fallback interface in every namespace, after disabling these interfaces. The setting
/// affects the whole host, so it is in the journal. If the agent cannot lock or write the setting now, load nothing.
fn load_tunnels(host: &Host, modules: &[&str]) {
    let Ok(_locked) = host.lock_briefly("setting:net.core.fb_tunnels_only_for_init_net") else { return };
    let nowhere = SettingWrite { path: FALLBACK_TUNNELS.to_owned(), value: NOWHERE.to_owned(), netns: None };
    if setting::write_locked(host, &nowhere).is_ok() {
        for module in modules {
            load(host, &[module]);
        }
    }
    // A setting that cannot be restored now stays in the journal.
    undo_changes(host, &host.journal, Some(&[setting::undo_key(None, FALLBACK_TUNNELS)]));
}

fn load(host: &Host, words: &[&str]) {
    let argv = ["modprobe", "-q"].iter().chain(words).map(|&word| word.to_owned()).collect();
    let _ = host.run(Program { argv, ..Program::default() }, patience(host));
}

/// The sysctl for fallback interfaces of gre and other tunnels (net.core).
const FALLBACK_TUNNELS: &str = "/proc/sys/net/core/fb_tunnels_only_for_init_net";
const NOWHERE: &str = "2";

fn try_batch(
    host: &Host,
    program: &str,
    lines: &[(&'static str, &str)],
) -> Vec<(&'static str, Option<bool>)> {
    let stdin = lines.iter().flat_map(|(_, line)| [*line, "\n"]).collect();
    let argv = [program, "-force", "-batch", "-"].map(str::to_owned).to_vec();
    let program =
        Program { argv, stdin, place: Place::Fresh, capture_bytes: 64 * 1024, ..Program::default() };
    let ran = host
        .run(program, patience(host))
        .ok()
        .filter(|ran| ran.end.ending.exit_status.is_some() && !ran.timed_out);
    let failed = ran.map(|ran| failed_lines(&ran.child.output().stderr));
    let made = |number: usize| failed.as_ref().map(|failed| !failed.contains(&number));
    (1..).zip(lines).map(|(number, (feature, _))| (*feature, made(number))).collect()
}

/// Return the numbers of the failed lines, from messages such as `Command failed -:3` of ip and tc.
fn failed_lines(errors: &str) -> Vec<usize> {
    let numbers = errors.lines().filter_map(|line| line.strip_prefix("Command failed -:"));
    numbers.filter_map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reno_is_supported_and_an_unknown_congestion_control_is_not() {
        assert_eq!((controls("reno"), controls("unheard of")), (true, false));
    }

    #[test]
    fn failed_batch_lines_are_found_in_the_error_output() {
        let errors =
            "Error: Unknown device type.\nCommand failed -:3\nRTNETLINK answers: x\nCommand failed -:5\n";
        assert_eq!(failed_lines(errors), [3, 5]);
    }

    #[test]
    fn prerequisite_of_a_feature_probe_runs_before_the_probe() {
        let order: Vec<&str> = LINKS.iter().chain(&QUEUES).map(|(feature, _)| *feature).collect();
        let place = |feature: &str| order.iter().position(|each| *each == feature).unwrap();
        assert!(NEEDS.iter().all(|(feature, need)| place(need) < place(feature)));
    }
}
