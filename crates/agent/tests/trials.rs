//! Trials and devices through the real binary, over veth pairs in namespaces of the agent's own.
//!
//! What a busy machine takes from the sender is in its stall log; the assertions hold outside of it.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{eventually, is_root, netns_exists, netns_name, start_as_nobody, state_folder, Agent, PATIENCE};
use nix::sys::signal::Signal;
use serde_json::{json, Value};

const SECOND_NS: u64 = 1_000_000_000;

/// Other tests run beside one that needs the machine to itself.
const TRIES: usize = 6;

/// A chain of namespaces, each linked to the next by a veth pair: `right` of one to `left` of the next.
struct Lab {
    agent: Agent,
    netns: Vec<String>,
}

impl Lab {
    fn new(mut agent: Agent, what: &str, length: usize) -> Self {
        let netns: Vec<String> = (0..length).map(|place| netns_name(&format!("{what}{place}"))).collect();
        for name in &netns {
            agent.call("netns.create", json!({"name": name}));
        }
        for pair in netns.windows(2) {
            let [one, other] = [&pair[0], &pair[1]];
            let line = format!(
                "ip link add right netns {one} mtu 2000 type veth peer name left mtu 2000 netns {other}"
            );
            agent.run(&line.split(' ').collect::<Vec<_>>());
            for (name, interface) in [(one, "right"), (other, "left")] {
                let line = format!("ip -n {name} link set {interface} addrgenmode none up");
                agent.run(&line.split(' ').collect::<Vec<_>>());
            }
        }
        let mut lab = Self { agent, netns };
        for place in 1..length {
            lab.wait_for_carrier(place - 1, "right");
            lab.wait_for_carrier(place, "left");
        }
        lab
    }

    /// Wait until an interface shows its state: the kernel tells of a carrier up to a second after it came.
    fn wait_for_carrier(&mut self, place: usize, interface: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.link(place, interface).contains("state UP") {
            assert!(Instant::now() < deadline, "{interface} does not come up");
        }
    }

    /// Open a set of two ports: the first namespace's and the last one's.
    fn open(&mut self, path: &str) -> Value {
        let (first, last) = (&self.netns[0], self.netns.last().unwrap());
        let ports = json!([
            {"name": "near", "netns": first, "interface": "right", "path": path, "send_cpu": 0},
            {"name": "far", "netns": last, "interface": "left", "path": path},
        ]);
        self.agent.call("traffic.open", json!({"id": "set", "ports": ports}))
    }

    /// Wait until a trial has begun: frames leave the first namespace.
    fn wait_for_frames(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let params = json!({"samplers": ["interfaces"], "netns": [self.netns[0]]});
        let sent = |read: &Value| {
            let interfaces = read["observations"][0]["interfaces"].as_array().unwrap();
            number(&interfaces.iter().find(|each| each["name"] == "right").unwrap()["tx_packets"])
        };
        while sent(&self.agent.call("sample.read", params.clone())) == 0 {
            assert!(Instant::now() < deadline, "no frame is sent");
        }
    }

    fn link(&mut self, place: usize, interface: &str) -> String {
        let netns = self.netns[place].clone();
        self.agent.run(&["ip", "-d", "-n", &netns, "link", "show", interface])
    }
}

fn sender(port: &str, tag: u16, to: &Value, frames_per_second: u64) -> Value {
    let flows = json!({
        "count": 16,
        "source_address": {"first": "198.18.0.1"}, "destination_address": {"first": "198.19.0.1", "count": 16},
        "source_port": {"first": 4096}, "destination_port": {"first": 9},
    });
    json!({
        "port": port, "tag": tag,
        "frames": {"sizes": [[64, 1]], "destination_mac": to["mac"], "flows": flows},
        "rate": {"frames": frames_per_second, "per_ns": SECOND_NS},
    })
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Every frame of a sender is accounted for, and the rate was exact outside the shifts that its stalls made.
fn assert_exact(sent: &Value, frames_per_second: u64, duration_ns: u64) {
    let [intended, offered, unsent] =
        ["intended_frames", "offered_frames", "unsent_frames"].map(|key| number(&sent[key]));
    assert_eq!(intended, frames_per_second * duration_ns / SECOND_NS);
    assert_eq!(intended, offered + unsent);
    let sum: u64 = ["refused_frames", "invalid_frames", "dropped_by_us_frames"]
        .iter()
        .map(|key| number(&sent[*key]))
        .sum();
    assert_eq!(unsent, sum);
    let steady_ns = duration_ns - number(&sent["slipped_ns"]);
    let wanted = u128::from(frames_per_second) * u128::from(steady_ns) / u128::from(SECOND_NS);
    let off = u128::from(offered).abs_diff(wanted);
    assert!(off <= 2 + wanted / 10_000, "offered {offered}, wanted {wanted} in {steady_ns} ns");
    assert_eq!(sent["gap_ns"]["count"], offered - 1);
}

/// Nothing is lost but what the receiving socket says it lost itself.
fn assert_received(sent: &Value, received: &Value) {
    let [lost, surplus, duplicates, reordered, dropped] = [
        &received["lost_frames"],
        &received["surplus_frames"],
        &received["duplicate_frames"],
        &received["reordered_frames"],
        &received["socket"]["dropped_frames"],
    ]
    .map(number);
    assert_eq!((lost, surplus, duplicates, reordered), (dropped, 0, 0, 0), "{}", received["socket"]);
    assert_eq!(number(&received["received_frames"]) + lost, number(&sent["offered_frames"]));
    assert_eq!(received["latency_ns"]["count"], received["received_frames"]);
    assert_eq!(received["drained"], true);
    assert_eq!(received["flows"]["count"], 16);
    // Only a receiver that did not run long enough for its buffers to overflow may lose.
    assert!(lost == 0 || number(&received["thread"]["wait_ns"]) > 5_000_000, "{}", received["thread"]);
}

fn run_both_ways(agent: &mut Agent, opened: &Value, frames_per_second: u64) {
    let [near, far] = [&opened["ports"][0], &opened["ports"][1]];
    let params = json!({
        "id": "set", "duration_ns": SECOND_NS,
        "senders": [sender("near", 1, far, frames_per_second), sender("far", 2, near, frames_per_second)],
        "receivers": [{"port": "far", "of": 0}, {"port": "near", "of": 1}],
    });
    let trial = agent.send("traffic.run", &params);
    let answered_ns = number(&agent.call("agent.ping", json!({}))["now_ns"]);
    let ran = agent.answer(trial);
    let ran = &ran["result"];
    assert!(answered_ns < number(&ran["end_ns"]), "a ping is answered while a trial runs");
    for way in [0, 1] {
        assert_exact(&ran["senders"][way], frames_per_second, SECOND_NS);
        assert_received(&ran["senders"][way], &ran["receivers"][way]);
    }
    assert_eq!(ran["ended_early"], false);
    assert_eq!(ran["shared_cpus"], json!([]));
}

#[test]
fn every_frame_of_both_directions_is_accounted_for_on_every_path() {
    if !is_root("every_frame_of_both_directions_is_accounted_for_on_every_path") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "both", 2);
    for (path, send, receive) in [
        ("auto", "AF_XDP copy", "AF_XDP native copy"),
        ("af_packet", "AF_PACKET sendmmsg qdisc-bypass", "AF_PACKET rx-ring"),
        ("bpf_live", "BPF live frames", "AF_XDP native copy"),
    ] {
        let opened = lab.open(path);
        for port in opened["ports"].as_array().unwrap() {
            assert_eq!(port["send"], json!({"name": send, "fallbacks": []}));
            assert_eq!(port["receive"], json!({"name": receive, "fallbacks": []}));
            assert_eq!((&port["mtu_bytes"], &port["frame_bytes"]), (&json!(2000), &json!(1522)));
        }
        run_both_ways(&mut lab.agent, &opened, 50_000);
        lab.agent.call("traffic.close", json!({"id": "set"}));
        assert!(!lab.link(0, "right").contains("prog/xdp"), "nothing stays attached");
    }
}

#[test]
fn a_thread_with_a_priority_of_its_own_is_real_time_and_no_other_priority_is_taken() {
    let test = "a_thread_with_a_priority_of_its_own_is_real_time_and_no_other_priority_is_taken";
    if !is_root(test) {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "first", 2);
    let run = |lab: &mut Lab, priority: u8| {
        let ports = json!([
            {"name": "near", "netns": lab.netns[0], "interface": "right", "halves": "send", "send_priority": priority},
        ]);
        lab.agent.call("traffic.open", json!({"id": "set", "ports": ports}));
        let to = json!({"mac": "02:00:00:00:00:02"});
        let params =
            json!({"id": "set", "duration_ns": 30 * SECOND_NS, "senders": [sender("near", 1, &to, 1000)]});
        lab.agent.send("traffic.run", &params)
    };
    let trial = run(&mut lab, 7);
    let tasks = format!("/proc/{}/task", lab.agent.pid());
    eventually("a thread of that priority", || {
        let threads = std::fs::read_dir(&tasks).unwrap().flatten();
        // Field 40 of /proc/PID/stat is the real-time priority, field 3 the first behind the name.
        let real_time = |stat: String| stat.rsplit(')').next().unwrap().split(' ').nth(38) == Some("7");
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).any(real_time)
    });
    lab.wait_for_frames(); // the thread has its priority before the trial begins
    let close = lab.agent.send("traffic.close", &json!({"id": "set"}));
    assert_eq!(lab.agent.answer(trial)["result"]["ended_early"], true);
    assert!(lab.agent.answer(close)["result"].is_object());
    let trial = run(&mut lab, 100);
    let refused = &lab.agent.answer(trial)["error"];
    assert_eq!((&refused["code"], &refused["data"]["errno"]), (&json!(-32001), &json!(22)), "{refused}");
}

#[test]
fn frames_that_do_not_fit_a_page_go_by_af_packet_and_the_reason_is_told() {
    if !is_root("frames_that_do_not_fit_a_page_go_by_af_packet_and_the_reason_is_told") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "jumbo", 2);
    for (netns, interface) in [(lab.netns[0].clone(), "right"), (lab.netns[1].clone(), "left")] {
        lab.agent.run(&["ip", "-n", &netns, "link", "set", interface, "mtu", "9202"]);
    }
    let port = |place: usize, interface: &str, path: &str| json!({"name": interface, "netns": lab.netns[place], "interface": interface, "path": path, "frame_bytes": 9216});
    let ports = json!([port(0, "right", "auto"), port(1, "left", "auto")]);
    let forced: Vec<Value> = ["af_xdp", "bpf_live"].map(|path| json!([port(0, "right", path)])).into();
    let opened = lab.agent.call("traffic.open", json!({"id": "set", "ports": ports}));
    for port in opened["ports"].as_array().unwrap() {
        for half in ["send", "receive"] {
            assert!(port[half]["name"].as_str().unwrap().starts_with("AF_PACKET"), "{port}");
            let reason = port[half]["fallbacks"][0].as_str().unwrap();
            assert!(
                reason.contains("AF_XDP carries frames of at most") && reason.contains("9212 B"),
                "{reason}"
            );
        }
    }
    let mut large = sender("right", 1, &opened["ports"][1], 1000);
    large["frames"]["sizes"] = json!([[9216, 1]]);
    let params = json!({
        "id": "set", "duration_ns": SECOND_NS / 5, "senders": [large], "receivers": [{"port": "left", "of": 0}],
    });
    let ran = lab.agent.call("traffic.run", params);
    assert_received(&ran["senders"][0], &ran["receivers"][0]);
    assert_eq!(
        number(&ran["receivers"][0]["received_bytes"]),
        9216 * number(&ran["receivers"][0]["received_frames"])
    );
    lab.agent.call("traffic.close", json!({"id": "set"}));
    for ports in forced {
        let refusal = lab.agent.refusal("traffic.open", json!({"id": "set", "ports": ports}));
        assert_eq!(refusal["code"], -32001, "{refusal}");
    }
}

#[test]
fn a_hundred_thousand_frames_a_second_go_through_many_trials_of_one_set() {
    if !is_root("a_hundred_thousand_frames_a_second_go_through_many_trials_of_one_set") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "many", 2);
    let opened = lab.open("auto");
    for tag in 1..=3 {
        let senders = [sender("near", tag, &opened["ports"][1], 100_000)];
        let receivers = [json!({"port": "far", "of": 0})];
        let params =
            json!({"id": "set", "duration_ns": SECOND_NS, "senders": senders, "receivers": receivers});
        let ran = lab.agent.call("traffic.run", params);
        assert_exact(&ran["senders"][0], 100_000, SECOND_NS);
        assert_received(&ran["senders"][0], &ran["receivers"][0]);
        assert_eq!(ran["receivers"][0]["other_tag_frames"], 0);
    }
}

#[test]
fn without_root_frames_are_received_by_af_packet_and_the_reason_is_told() {
    let folder = state_folder();
    let test = "without_root_frames_are_received_by_af_packet_and_the_reason_is_told";
    let Some(agent) = start_as_nobody(folder.path(), test) else { return };
    let capabilities = agent.hello["capabilities"].as_array().unwrap().clone();
    assert!(capabilities.contains(&json!("traffic")) && !capabilities.contains(&json!("device")));
    let mut lab = Lab::new(agent, "plain", 2);
    let opened = lab.open("auto");
    for port in opened["ports"].as_array().unwrap() {
        assert_eq!(port["receive"]["name"], "AF_PACKET rx-ring");
        assert!(port["receive"]["fallbacks"][0].as_str().unwrap().contains("not permitted"), "{port}");
    }
    run_both_ways(&mut lab.agent, &opened, 20_000);
    let params =
        json!({"id": "dut", "netns": lab.netns[0], "interface": "right", "action": {"kind": "drop"}});
    assert_eq!(lab.agent.refusal("device.start", params)["data"]["errno"], 1);
}

#[test]
fn interfaces_that_cannot_be_used_are_refused_and_stay_as_they_were() {
    if !is_root("interfaces_that_cannot_be_used_are_refused_and_stay_as_they_were") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "bad", 2);
    let (near, far) = (lab.netns[0].clone(), lab.netns[1].clone());
    lab.agent.run(&["ip", "-n", &near, "link", "add", "idle", "type", "veth", "peer", "name", "idle1"]);
    let port = |name: &str, interface: &str, more: Value| {
        let mut port = json!({"name": name, "netns": near, "interface": interface});
        port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        port
    };
    let before = lab.agent.run(&["ip", "-d", "-n", &near, "link"]);
    for (bad, code, errno, path) in [
        (port("p", "nothing", json!({})), -32001, 19, "nothing"),
        (port("p", "idle", json!({})), -32001, 100, "idle"),
        (port("p", "right", json!({"frame_bytes": 9000})), -32001, 90, "right"),
        (
            json!({"name": "p", "netns": "iolab-t-none", "interface": "right"}),
            -32001,
            2,
            "/run/netns/iolab-t-none",
        ),
    ] {
        // The port before it is closed again.
        let ports = json!([{"name": "ok", "netns": far, "interface": "left"}, bad]);
        let refusal = lab.agent.refusal("traffic.open", json!({"id": "set", "ports": ports}));
        assert_eq!((&refusal["code"], &refusal["data"]["errno"]), (&json!(code), &json!(errno)), "{refusal}");
        assert_eq!(refusal["data"]["path"], path);
    }
    assert_eq!(lab.agent.run(&["ip", "-d", "-n", &near, "link"]), before);
    assert!(!lab.link(1, "left").contains("prog/xdp"));
    for (params, seen) in [
        (json!({"id": "set", "ports": []}), json!(0)),
        (
            json!({"id": "set", "ports": [port("p", "right", json!({})), port("p", "idle", json!({}))]}),
            json!("p"),
        ),
        (
            json!({"id": "set", "ports": [port("p", "right", json!({})), port("q", "right", json!({}))]}),
            json!("right"),
        ),
    ] {
        let refusal = lab.agent.refusal("traffic.open", params);
        assert_eq!((&refusal["code"], &refusal["data"]["seen"]), (&json!(-32602), &seen));
    }
    for method in ["traffic.close", "device.stop"] {
        assert_eq!(lab.agent.refusal(method, json!({"id": "none"}))["code"], -32004);
    }
}

#[test]
fn a_program_that_an_interface_carries_is_never_replaced_unasked() {
    if !is_root("a_program_that_an_interface_carries_is_never_replaced_unasked") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "xdp", 2);
    let device =
        json!({"id": "theirs", "netns": lab.netns[1], "interface": "left", "action": {"kind": "pass"}});
    lab.agent.call("device.start", device);
    let before = lab.link(1, "left");
    assert!(before.contains("prog/xdp"), "{before}");
    let ports = json!([{"name": "far", "netns": lab.netns[1], "interface": "left", "path": "auto"}]);
    let refusal = lab.agent.refusal("traffic.open", json!({"id": "set", "ports": ports}));
    assert_eq!((&refusal["code"], &refusal["data"]["errno"]), (&json!(-32001), &json!(16)));
    assert!(before.contains(&format!("id {}", refusal["data"]["program_id"])), "{refusal} {before}");
    assert_eq!(lab.link(1, "left"), before);
    lab.agent.call("device.stop", json!({"id": "theirs"}));
    assert!(!lab.link(1, "left").contains("prog/xdp"));
}

/// A program put on an interface as `ip link` does, without a link of its own, and a folder that keeps it.
struct Theirs {
    kept: tempfile::TempDir,
}

impl Theirs {
    fn put(lab: &mut Lab) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().to_str().unwrap();
        lab.agent.run(&["mount", "-t", "bpf", "bpf", folder]);
        let this = Self { kept };
        let netns = lab.netns[1].clone();
        let device = json!({"id": "theirs", "netns": netns, "interface": "left", "action": {"kind": "pass"}});
        lab.agent.call("device.start", device);
        let shown = lab.link(1, "left");
        let id = shown.split_once("prog/xdp id ").unwrap().1.split(' ').next().unwrap();
        let path = this.kept.path().join("pass");
        iolab_traffic::keep_program(id.parse().unwrap(), &path).unwrap();
        lab.agent.call("device.stop", json!({"id": "theirs"}));
        let pinned = path.to_str().unwrap();
        lab.agent.run(&["ip", "-n", &netns, "link", "set", "left", "xdpdrv", "pinned", pinned]);
        this
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.kept.path()).output();
    }
}

/// Whether a BPF file system is mounted below a folder.
fn keeps_programs(state: &std::path::Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(&format!("{}/bpf ", state.display()))
}

#[test]
fn a_replaced_program_comes_back_on_close_and_after_a_crash() {
    if !is_root("a_replaced_program_comes_back_on_close_and_after_a_crash") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "back", 2);
    let _theirs = Theirs::put(&mut lab);
    let before = lab.link(1, "left");
    let ports =
        json!([{"name": "far", "netns": lab.netns[1], "interface": "left", "path": "af_xdp", "force": true}]);
    let open = json!({"id": "set", "ports": ports});
    lab.agent.call("traffic.open", open.clone());
    assert_ne!(lab.link(1, "left"), before);
    assert!(keeps_programs(state.path()));
    lab.agent.call("traffic.close", json!({"id": "set"}));
    assert_eq!(lab.link(1, "left"), before);
    assert!(!keeps_programs(state.path()));
    let missing = json!({"id": "set", "ports": [open["ports"][0], {"name": "p", "interface": "none", "netns": lab.netns[0]}]});
    assert_eq!(lab.agent.refusal("traffic.open", missing)["data"]["errno"], 19);
    assert_eq!((lab.link(1, "left"), keeps_programs(state.path())), (before.clone(), false));

    lab.agent.call("traffic.open", open);
    // The namespaces are left as they are, so that the program's place is still there.
    let Lab { agent, netns } = lab;
    agent.crash();
    let mut next = Agent::start(state.path());
    let link = |agent: &mut Agent| agent.run(&["ip", "-d", "-n", &netns[1], "link", "show", "left"]);
    eventually("the dead agent's program goes", || {
        let shown =
            Command::new("ip").args(["-d", "-n", &netns[1], "link", "show", "left"]).output().unwrap();
        !String::from_utf8(shown.stdout).unwrap().contains("prog/xdp")
    });
    let journal = next.hello["predecessors"][0]["journal"].clone();
    let keys = json!([format!("program:{}:left", netns[1])]);
    let undone = next.call("journal.undo", json!({"journal": journal, "keys": keys}));
    assert_eq!((&undone["undone"], &undone["failed"]), (&json!(1), &json!([])));
    assert_eq!(link(&mut next), before);
    assert_eq!(next.call("journal.undo", json!({"journal": journal}))["failed"], json!([]));
    assert!(!keeps_programs(state.path()) && netns.iter().all(|name| !netns_exists(name)));
}

#[test]
fn trials_that_cannot_be_are_refused_before_anything_is_sent() {
    if !is_root("trials_that_cannot_be_are_refused_before_anything_is_sent") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "refuse", 2);
    let opened = lab.open("af_packet");
    let good = sender("near", 1, &opened["ports"][1], 1000);
    let with = |path: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed
    };
    for (senders, receivers, code) in [
        (vec![], vec![], -32602),
        (vec![with("/port", json!("nowhere"))], vec![], -32602),
        (vec![with("/rate/frames", json!(0))], vec![], -32602),
        (vec![with("/rate/per_ns", json!(0))], vec![], -32602),
        (vec![with("/frames/sizes", json!([[63, 1]]))], vec![], -32602),
        (vec![with("/frames/sizes", json!([[1600, 1]]))], vec![], -32001),
        (vec![with("/frames/sizes", json!([[2100, 1]]))], vec![], -32001),
        (vec![with("/frames/destination_mac", json!("2:0"))], vec![], -32602),
        (vec![with("/frames/flows/source_address/first", json!("fd00::1"))], vec![], -32602),
        (vec![good.clone(), good.clone()], vec![], -32602),
        (vec![good.clone()], vec![json!({"port": "far", "of": 1})], -32602),
    ] {
        let params =
            json!({"id": "set", "duration_ns": SECOND_NS, "senders": senders, "receivers": receivers});
        let refusal = lab.agent.refusal("traffic.run", params);
        assert_eq!(refusal["code"], code, "{refusal}");
    }
    let drops = lab.agent.call("sample.read", json!({"samplers": ["interfaces"], "netns": [lab.netns[0]]}));
    let interfaces = drops["observations"][0]["interfaces"].as_array().unwrap().clone();
    assert_eq!(interfaces.iter().find(|each| each["name"] == "right").unwrap()["tx_packets"], 0);
}

#[test]
fn closing_a_set_ends_its_trial_at_once_and_the_trial_is_answered() {
    if !is_root("closing_a_set_ends_its_trial_at_once_and_the_trial_is_answered") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "close", 2);
    let opened = lab.open("auto");
    let senders = [sender("near", 1, &opened["ports"][1], 10_000)];
    let receivers = [json!({"port": "far", "of": 0})];
    let params =
        json!({"id": "set", "duration_ns": 60 * SECOND_NS, "senders": senders, "receivers": receivers});
    let begun = Instant::now();
    let trial = lab.agent.send("traffic.run", &params);
    lab.wait_for_frames();
    assert_eq!(lab.agent.refusal("traffic.run", params)["code"], -32003);
    lab.agent.call("traffic.close", json!({"id": "set"}));
    let ran = lab.agent.answer(trial);
    assert_eq!(ran["result"]["ended_early"], true, "{ran}");
    assert!(begun.elapsed() < Duration::from_secs(50));
}

#[test]
fn a_stop_of_the_agent_is_in_the_stall_log() {
    if !is_root("a_stop_of_the_agent_is_in_the_stall_log") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "stop", 2);
    let opened = lab.open("auto");
    let senders = [sender("near", 1, &opened["ports"][1], 10_000)];
    let params = json!({"id": "set", "duration_ns": 3 * SECOND_NS, "senders": senders});
    let trial = lab.agent.send("traffic.run", &params);
    lab.wait_for_frames();
    lab.agent.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(30));
    lab.agent.signal(Signal::SIGCONT);
    let ran = lab.agent.answer(trial);
    let sent = &ran["result"]["senders"][0];
    let longest = sent["stalls"].as_array().unwrap().iter().map(|stall| number(&stall["late_ns"])).max();
    assert!(longest > Some(25_000_000), "{}", sent["stalls"]);
    assert_exact(sent, 10_000, 3 * SECOND_NS);
    assert!(number(&sent["slipped_ns"]) > 25_000_000);
}

#[test]
fn a_crash_in_a_trial_leaves_no_program_and_the_next_agent_removes_the_rest() {
    if !is_root("a_crash_in_a_trial_leaves_no_program_and_the_next_agent_removes_the_rest") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "crash", 2);
    let opened = lab.open("auto");
    let params = json!({
        "id": "set", "duration_ns": 60 * SECOND_NS,
        "senders": [sender("near", 1, &opened["ports"][1], 10_000)], "receivers": [{"port": "far", "of": 0}],
    });
    lab.agent.send("traffic.run", &params);
    lab.wait_for_frames();
    let Lab { agent, netns } = lab;
    let link = || {
        let output =
            Command::new("ip").args(["-d", "-n", &netns[1], "link", "show", "left"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(link().contains("prog/xdp"));
    agent.crash();
    eventually("the program goes", || !link().contains("prog/xdp"));
    let mut next = Agent::start(state.path());
    let journal = next.hello["predecessors"][0]["journal"].clone();
    assert_eq!(next.call("journal.undo", json!({"journal": journal}))["failed"], json!([]));
    assert!(netns.iter().all(|name| !netns_exists(name)));
}

#[test]
fn a_token_bucket_lets_through_what_it_says() {
    if !is_root("a_token_bucket_lets_through_what_it_says") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "bucket", 3);
    let opened = lab.open("auto");
    let rule = json!({"kind": "token_bucket", "frames": 50_000, "per_ns": SECOND_NS, "burst_frames": 100});
    let action = json!({"kind": "forward", "interface": "right"});
    let device =
        json!({"id": "dut", "netns": lab.netns[1], "interface": "left", "rule": rule, "action": action});
    assert_eq!(lab.agent.call("device.start", device)["mode"], "native");
    let senders = [sender("near", 1, &opened["ports"][1], 80_000)];
    let receivers = [json!({"port": "far", "of": 0})];
    let params =
        json!({"id": "set", "duration_ns": 2 * SECOND_NS, "senders": senders, "receivers": receivers});
    let ran = lab.agent.call("traffic.run", params);
    let counts = lab.agent.call("device.stop", json!({"id": "dut"}));
    let (sent, received) = (&ran["senders"][0], &ran["receivers"][0]);
    let [offered, passed, dropped] =
        [&sent["offered_frames"], &counts["passed_frames"], &counts["dropped_frames"]].map(number);
    assert_eq!(offered, passed + dropped, "{counts}");
    assert_eq!(passed, number(&received["received_frames"]) + number(&received["socket"]["dropped_frames"]));
    // While the sender stalled, the bucket had nothing to let through.
    let stalled_ns: u64 = sent["stalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stall| number(&stall["end_ns"]) - number(&stall["begin_ns"]))
        .sum();
    let (most, least) = (100_000 + 100, 100_000 - stalled_ns / 20_000);
    assert!(passed <= most + 500 && passed + 500 >= least, "{passed} of {least} to {most}");
    assert_eq!(received["lost_frames"], offered - number(&received["received_frames"]));
}

/// One trial at `frames_per_second` through a device in the middle that forwards by `rule` both ways.
fn run_through(lab: &mut Lab, rule: &Value, frames_per_second: u64) -> (Value, Value) {
    for (id, from, to) in [("there", "left", "right"), ("back", "right", "left")] {
        let action = json!({"kind": "forward", "interface": to});
        let device =
            json!({"id": id, "netns": lab.netns[1], "interface": from, "rule": rule, "action": action});
        let started = lab.agent.call("device.start", device);
        assert_eq!((&started["mode"], &started["instructions"]), (&json!("user"), &json!(0)));
    }
    let opened = lab.open("auto");
    let senders = [sender("near", 1, &opened["ports"][1], frames_per_second)];
    let drain = json!({"quiet_ns": SECOND_NS / 10});
    let receivers = [json!({"port": "far", "of": 0})];
    let params = json!({
        "id": "set", "duration_ns": SECOND_NS, "senders": senders, "receivers": receivers, "drain": drain,
    });
    let ran = lab.agent.call("traffic.run", params);
    lab.agent.call("traffic.close", json!({"id": "set"}));
    let counts = lab.agent.call("device.stop", json!({"id": "there"}));
    lab.agent.call("device.stop", json!({"id": "back"}));
    let offered = &ran["senders"][0]["offered_frames"];
    assert_eq!((&counts["passed_frames"], &counts["dropped_frames"]), (offered, &json!(0)));
    (ran["receivers"][0].clone(), counts)
}

#[test]
fn a_delaying_device_holds_every_frame_for_its_delay() {
    if !is_root("a_delaying_device_holds_every_frame_for_its_delay") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "delay", 3);
    for delay_ns in [0, 1_000_000, 20_000_000] {
        let rule = json!({"kind": "delay", "delay_ns": delay_ns});
        // How late most are depends on what else this machine does; that none is early does not, and some are prompt.
        let prompt = (0..TRIES).any(|_| {
            let (received, _) = run_through(&mut lab, &rule, 5_000);
            assert_eq!((&received["lost_frames"], &received["reordered_frames"]), (&json!(0), &json!(0)));
            let least = number(&received["latency_ns"]["min"]);
            assert!(least >= delay_ns, "no frame is early: {received}");
            least < delay_ns + 1_000_000
        });
        assert!(prompt, "{delay_ns}");
    }
}

#[test]
fn a_stalling_device_holds_what_arrives_until_the_stall_is_over() {
    if !is_root("a_stalling_device_holds_what_arrives_until_the_stall_is_over") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "stall", 3);
    let rule = json!({"kind": "stall", "length_ns": SECOND_NS / 50, "every_ns": SECOND_NS / 5});
    let as_told = (0..TRIES).any(|_| {
        let (received, _) = run_through(&mut lab, &rule, 5_000);
        assert_eq!((&received["lost_frames"], &received["reordered_frames"]), (&json!(0), &json!(0)));
        let (latency, most) = (&received["latency_ns"], number(&received["latency_ns"]["max"]));
        // A tenth of the time is stalls, in which frames wait for half of it on average; a busy machine adds to both.
        let mean = number(&latency["sum"]) / number(&latency["count"]);
        most >= 19_500_000 && mean > 500_000 && number(&latency["min"]) < 1_000_000
    });
    assert!(as_told);
}

#[test]
fn devices_that_cannot_be_are_refused() {
    if !is_root("devices_that_cannot_be_are_refused") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "never", 2);
    let forward = json!({"kind": "forward", "interface": "lo"});
    let delay = json!({"kind": "delay", "delay_ns": 5});
    for (rule, action, more) in [
        (&json!({"kind": "delay", "delay_ns": 11 * SECOND_NS}), &forward, json!({})),
        (&json!({"kind": "stall", "length_ns": 5, "every_ns": 4}), &forward, json!({})),
        (&json!({"kind": "stall", "length_ns": 0, "every_ns": 0}), &forward, json!({})),
        (&delay, &json!({"kind": "reflect"}), json!({})),
        (&json!({"kind": "all"}), &forward, json!({"cpu": 0})),
    ] {
        let mut device =
            json!({"id": "dut", "netns": lab.netns[0], "interface": "right", "rule": rule, "action": action});
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(lab.agent.refusal("device.start", device)["code"], -32602, "{rule} {action}");
    }
    let delayed = |more: Value| {
        let mut device = json!({"id": "dut", "netns": lab.netns[0], "interface": "right", "rule": delay, "action": forward});
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        device
    };
    for more in [json!({"cpu": 100_000}), json!({"priority": 100}), json!({"interface": "none"})] {
        assert_eq!(lab.agent.refusal("device.start", delayed(more))["code"], -32001);
    }
    assert!(!lab.link(0, "right").contains("prog/xdp"), "nothing stays attached");
}

#[test]
fn drops_are_told_by_place() {
    if !is_root("drops_are_told_by_place") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "drops", 2);
    let read = lab.agent.call("sample.read", json!({"samplers": ["drops"], "netns": [lab.netns[0]]}));
    let drops = read["observations"][0]["drops"].as_array().unwrap().clone();
    let find = |place: &str, name: &str| {
        let found = drops.iter().find(|each| each["place"] == place && each["name"] == name);
        found.unwrap_or_else(|| panic!("no {place} {name}: {read}"))["counters"].clone()
    };
    assert_eq!(find("interface", "right")["tx_dropped"], 0);
    let driver = find("driver", "right");
    assert!(
        driver.as_object().unwrap().iter().any(|(name, count)| name.ends_with("drops") && count == 0),
        "{driver}"
    );
    assert_eq!(find("protocol", "Udp")["RcvbufErrors"], 0);
}
