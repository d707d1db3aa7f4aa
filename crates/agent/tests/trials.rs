//! Tests of trials with the real binary, over veth pairs in namespaces that the agent creates.
//!
//! The stall log contains the time that a busy machine takes from the sender; the assertions exclude this time.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::lab::{number, sender, Lab, SECOND_NS};
use common::{eventually, is_root, netns_exists, start_as_nobody, state_folder, Agent};
use nix::sys::signal::Signal;
use serde_json::{json, Value};

/// Check that every frame of a sender is accounted for, and that the rate was exact except for schedule shifts by
/// stalls.
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

/// Check that no frame is lost except those that the receiving socket reports as its own loss.
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
    // Only a receiver that was stalled long enough for its buffers to overflow may lose frames.
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
fn several_senders_form_one_stream_with_one_balance() {
    if !is_root("several_senders_form_one_stream_with_one_balance") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::with_queues(Agent::start(state.path()), "shared", 2, 4);
    let port = |lab: &Lab, cpus: &[usize]| {
        json!({"name": "near", "netns": lab.netns[0], "interface": "right", "path": "af_xdp", "halves": "send",
            "send_cpu": 0, "further_send_cpus": cpus})
    };
    let far = json!({"name": "far", "netns": lab.netns[1], "interface": "left", "halves": "receive"});
    let more =
        lab.agent.refusal("traffic.open", json!({"id": "set", "ports": [port(&lab, &[1, 0, 1, 0]), far]}));
    assert!(more["message"].as_str().unwrap().contains("5 senders need a transmit queue each"), "{more}");
    let opened = lab.agent.call("traffic.open", json!({"id": "set", "ports": [port(&lab, &[1, 0]), far]}));
    assert_eq!(opened["ports"][0]["send_queues"], 4);
    let mut one = sender("near", 1, &opened["ports"][1], 60_000);
    let trial = |flows: u32, sender: &mut Value| {
        sender["frames"]["flows"]["count"] = json!(flows);
        sender["frames"]["flows"]["destination_address"]["count"] = json!(flows);
        json!({"id": "set", "duration_ns": SECOND_NS, "senders": [sender], "receivers": [{"port": "far", "of": 0}]})
    };
    let uneven = lab.agent.refusal("traffic.run", trial(16, &mut one));
    assert!(uneven["message"].as_str().unwrap().contains("multiple of the senders"), "{uneven}");
    let ran = lab.agent.call("traffic.run", trial(15, &mut one));
    let (sent, received) = (&ran["senders"][0], &ran["receivers"][0]);
    assert_exact(sent, 60_000, SECOND_NS);
    assert_eq!(
        number(&received["received_frames"]) + number(&received["lost_frames"]),
        number(&sent["offered_frames"])
    );
    assert_eq!(
        [&received["lost_frames"], &received["duplicate_frames"], &received["surplus_frames"]],
        [0, 0, 0]
    );
    assert_eq!(received["reordered_frames"], 0, "a flow is of one thread");
    assert_eq!(sent["further_threads"].as_array().unwrap().len(), 2);
    let slices: u64 = sent["slices_frames"].as_array().unwrap().iter().map(number).sum();
    assert!(slices >= number(&sent["offered_frames"]));
}

#[test]
fn thread_with_a_priority_is_real_time_and_an_invalid_priority_is_refused() {
    let test = "thread_with_a_priority_is_real_time_and_an_invalid_priority_is_refused";
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
        // Field 40 of /proc/PID/stat is the real-time priority; field 3 is the first field after the name.
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
fn frames_larger_than_a_page_use_af_packet_and_the_reason_is_reported() {
    if !is_root("frames_larger_than_a_page_use_af_packet_and_the_reason_is_reported") {
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
fn hundred_thousand_frames_per_second_are_received_in_repeated_trials() {
    if !is_root("hundred_thousand_frames_per_second_are_received_in_repeated_trials") {
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
fn rootless_agent_receives_by_af_packet_and_reports_the_reason() {
    let folder = state_folder();
    let test = "rootless_agent_receives_by_af_packet_and_reports_the_reason";
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
fn invalid_trials_are_refused_before_anything_is_sent() {
    if !is_root("invalid_trials_are_refused_before_anything_is_sent") {
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
fn closing_a_port_set_ends_its_trial_at_once() {
    if !is_root("closing_a_port_set_ends_its_trial_at_once") {
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
fn stopped_agent_is_recorded_in_the_stall_log() {
    if !is_root("stopped_agent_is_recorded_in_the_stall_log") {
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
fn crash_during_a_trial_leaves_no_program_and_the_rest_is_undone() {
    if !is_root("crash_during_a_trial_leaves_no_program_and_the_rest_is_undone") {
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
