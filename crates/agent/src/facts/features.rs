//! What the kernel can make, found by making it in a namespace that goes away with the program that tried.

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

/// Each feature and the line for `ip -batch` that makes it.
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

/// Each feature and the line for `tc -batch` that makes it; the filter needs the htb before it, so it comes second.
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

/// Whether the kernel tells this process why it drops packets.
const DROP_REASONS: &str = "trace:drop-reasons";

/// Whether the kernel takes rules from nft: known where there is that program.
const FIREWALL: (&str, [&str; 3]) = ("firewall:nftables", ["nft", "list", "tables"]);

/// Needed by another feature: where it is missing, the other could not be tried.
const NEEDS: [(&str, &str); 5] = [
    ("link:vlan", "link:bridge"),
    ("link:macvtap", "link:veth"),
    ("link:macvlan", "link:veth"),
    ("link:ipvlan", "link:bridge"),
    ("filter:u32", "qdisc:htb"),
];

/// What may control the congestion of TCP: each is given to a socket, which has the kernel load it.
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

/// How a shell, and what starts programs, tell that there is none of that name.
const NO_PROGRAM: i32 = 127;

/// Try every feature.
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

/// Ask for the tables of a namespace that has none; a kernel without the module refuses.
fn try_firewall(host: &Host) -> Option<bool> {
    let argv = FIREWALL.1.map(str::to_owned).to_vec();
    let program = Program { argv, place: Place::Fresh, capture_bytes: 1024, ..Program::default() };
    let ran = host.run(program, patience(host)).ok().filter(|ran| !ran.timed_out)?;
    ran.end.ending.exit_status.filter(|status| *status != NO_PROGRAM).map(|status| status == 0)
}

/// Whether the kernel lets a socket of this process have its congestion controlled so.
fn controls(name: &str) -> bool {
    socket::control_congestion(name).is_ok()
}

/// Load the modules that make interfaces outside the namespace of the trial when the kernel loads them by itself.
///
/// Where that may not be or the kernel has none, the trial shows it.
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

/// Load modules that make an interface in every namespace, unless the kernel is asked not to: that is journalled, for it
/// concerns the whole computer. Where nothing may be changed now, by whoever it is, nothing is loaded.
fn load_tunnels(host: &Host, modules: &[&str]) {
    let nowhere = SettingWrite { path: FALLBACK_TUNNELS.to_owned(), value: NOWHERE.to_owned(), netns: None };
    if setting::write(host, &nowhere).is_ok() {
        for module in modules {
            load(host, &[module]);
        }
    }
    // What cannot be written back now stays in the journal.
    undo_changes(host, &host.journal, Some(&[setting::undo_key(None, FALLBACK_TUNNELS)]));
}

fn load(host: &Host, words: &[&str]) {
    let argv = ["modprobe", "-q"].iter().chain(words).map(|&word| word.to_owned()).collect();
    let _ = host.run(Program { argv, ..Program::default() }, patience(host));
}

/// Where gre and others have an interface by themselves (Linux, net.core).
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

/// The numbers of the lines that failed, which both programs tell as `Command failed -:3`.
fn failed_lines(errors: &str) -> Vec<usize> {
    let numbers = errors.lines().filter_map(|line| line.strip_prefix("Command failed -:"));
    numbers.filter_map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_is_controlled_by_reno_and_by_nothing_unheard_of() {
        assert_eq!((controls("reno"), controls("unheard of")), (true, false));
    }

    #[test]
    fn failed_lines_are_found_among_the_reasons() {
        let errors =
            "Error: Unknown device type.\nCommand failed -:3\nRTNETLINK answers: x\nCommand failed -:5\n";
        assert_eq!(failed_lines(errors), [3, 5]);
    }

    #[test]
    fn what_another_needs_comes_before_it() {
        let order: Vec<&str> = LINKS.iter().chain(&QUEUES).map(|(feature, _)| *feature).collect();
        let place = |feature: &str| order.iter().position(|each| *each == feature).unwrap();
        assert!(NEEDS.iter().all(|(feature, need)| place(need) < place(feature)));
    }
}
