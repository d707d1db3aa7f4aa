//! Tests that compare samples, series of samples and facts of the real binary with the output of system tools.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::lab::Lab;
use common::{is_root, netns_name, state_folder, Agent};
use serde_json::{json, Value};

#[test]
fn every_sampler_reads_within_its_time_window() {
    if !is_root("every_sampler_reads_within_its_time_window") {
        return;
    }
    let (state, name) = (state_folder(), netns_name("sample"));
    let mut agent = Agent::start(state.path());
    agent.call("netns.create", json!({"name": name}));
    agent.call(
        "command.run",
        json!({"argv": ["tc", "qdisc", "add", "dev", "lo", "root", "handle", "7:", "pfifo"], "netns": name}),
    );
    agent.call("process.start", json!({"id": "p", "argv": ["sleep", "60"], "netns": name}));
    let samplers = json!(["cpu", "threads", "softirq", "softnet", "interfaces", "qdiscs"]);
    let reading = agent.call("sample.read", json!({"samplers": samplers, "netns": [name, null]}));
    let observations = reading["observations"].as_array().unwrap();
    let names: Vec<_> = observations.iter().map(|each| each["sampler"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["cpu", "threads", "softirq", "softnet", "interfaces", "qdiscs", "interfaces", "qdiscs"]
    );
    assert!(observations.windows(2).all(|pair| pair[0]["end_ns"].as_u64() <= pair[1]["begin_ns"].as_u64()));
    assert_eq!(observations[1]["threads"][0]["process"], "p");
    assert_eq!(observations[1]["threads"][0]["name"], "sleep");
    assert_eq!(
        (&observations[4]["netns"], &observations[4]["interfaces"][0]["name"]),
        (&json!(name), &json!("lo"))
    );
    let qdisc = &observations[5]["qdiscs"][0];
    assert_eq!(
        (&qdisc["interface"], &qdisc["kind"], &qdisc["handle"], &qdisc["parent"]),
        (&json!("lo"), &json!("pfifo"), &json!("7:"), &json!("root"))
    );
    assert_eq!(observations[6]["netns"], Value::Null);
}

#[test]
fn qdisc_counters_agree_with_tc() {
    if !is_root("qdisc_counters_agree_with_tc") {
        return;
    }
    let (state, name) = (state_folder(), netns_name("qdisc"));
    let mut agent = Agent::start(state.path());
    agent.call("netns.create", json!({"name": name}));
    for argv in [
        vec!["tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "1"],
        vec!["tc", "class", "add", "dev", "lo", "parent", "1:", "classid", "1:1", "htb", "rate", "1mbit"],
        vec!["tc", "qdisc", "add", "dev", "lo", "parent", "1:1", "handle", "2:", "pfifo", "limit", "5"],
        // The process lives until the few frames that were not dropped have left the shaper.
        vec!["python3", "-c", "import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);[s.sendto(b'x'*900,('127.0.0.1',9)) for _ in range(50)];import time;time.sleep(0.3)"],
    ] {
        let ran = agent.call("command.run", json!({"argv": argv, "netns": name}));
        assert_eq!(ran["exit_status"], 0, "{ran}");
    }
    let told = agent.call("command.run", json!({"argv": ["tc", "-s", "-j", "qdisc", "show"], "netns": name}));
    let told: Value = serde_json::from_str(told["stdout"].as_str().unwrap()).unwrap();
    let reading = agent.call("sample.read", json!({"samplers": ["qdiscs"], "netns": [name]}));
    let qdiscs = reading["observations"][0]["qdiscs"].as_array().unwrap();
    assert_eq!(qdiscs.len(), 2);
    for (ours, theirs) in qdiscs.iter().zip(told.as_array().unwrap()) {
        for key in ["kind", "handle", "bytes", "packets", "drops", "overlimits", "requeues", "qlen"] {
            assert_eq!(ours[key], theirs[key], "{key} of {theirs}");
        }
        assert_eq!(ours["backlog_bytes"], theirs["backlog"]);
    }
    assert!(qdiscs[1]["drops"].as_u64() > Some(0) && qdiscs[1]["packets"].as_u64() > Some(0));
    assert_eq!((&qdiscs[0]["parent"], &qdiscs[1]["parent"]), (&json!("root"), &json!("1:1")));
}

#[test]
fn series_is_read_on_schedule_and_reports_dropped_readings() {
    if !is_root("series_is_read_on_schedule_and_reports_dropped_readings") {
        return;
    }
    let (state, name) = (state_folder(), netns_name("series"));
    let mut agent = Agent::start(state.path());
    agent.call("netns.create", json!({"name": name}));
    let start = json!({"series": "s", "period_ms": 10, "samplers": ["cpu", "interfaces"], "netns": [name], "keep": 5});
    agent.call("sample.start", start.clone());
    assert_eq!(agent.refusal("sample.start", start)["code"], -32602);
    agent.run(&["sleep", "1"]);
    agent.call("netns.delete", json!({"name": name}));
    agent.run(&["sleep", "1"]);
    let series = agent.call("sample.stop", json!({"series": "s"}));
    let readings = series["readings"].as_array().unwrap();
    assert_eq!(readings.len(), 5);
    assert!(series["dropped"].as_u64() > Some(10));
    let begins: Vec<u64> =
        readings.iter().map(|reading| reading["observations"][0]["begin_ns"].as_u64().unwrap()).collect();
    assert!(begins[4] - begins[0] > 20_000_000, "{begins:?}");
    assert_eq!(readings[4]["failures"][0]["sampler"], "interfaces");
    assert_eq!(agent.refusal("sample.stop", json!({"series": "s"}))["code"], -32004);
    let absent = json!({"series": "s", "period_ms": 10, "samplers": ["interfaces"], "netns": [name]});
    assert_eq!(agent.refusal("sample.start", absent)["data"]["errno"], 2);
    let fast = json!({"series": "s", "period_ms": 9, "samplers": ["cpu"]});
    assert_eq!(agent.refusal("sample.start", fast)["code"], -32602);
}

/// Return facts that were read within two seconds, which on a busy machine may take several attempts.
fn read_quickly(agent: &mut Agent, params: Value) -> Value {
    let mut read = || {
        let begin = Instant::now();
        let facts = agent.call("facts.read", params.clone());
        (begin.elapsed().as_millis() < 2_000).then_some(facts)
    };
    (0..10).find_map(|_| read()).unwrap()
}

#[test]
fn facts_are_read_quickly_and_without_side_effects() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let params = json!({"programs": ["ip", "iolab-no-such-program"], "settings": ["/proc/sys/net/core/rmem_max", "/proc/sys/no"]});
    let tunnels = || std::fs::read_to_string("/proc/sys/net/core/fb_tunnels_only_for_init_net").ok();
    let before = tunnels();
    let facts = read_quickly(&mut agent, params);
    assert_eq!(tunnels(), before);
    let left = agent.call("journal.list", json!({"journal": "self"}));
    assert_eq!(left["entries"], json!([]), "{left}");
    let links = agent.run(&["ip", "-brief", "link"]);
    let mut names = links.lines().filter_map(|line| line.split([' ', '@']).next());
    assert!(names.all(|name| !["v0", "v1", "b0", "m0", "i0"].contains(&name)), "{links}");
    assert_eq!(facts["kernel"], agent.run(&["uname", "-r"]).trim());
    assert!(facts["programs"]["ip"].as_str().unwrap().starts_with("ip utility"));
    assert_eq!(facts["programs"]["iolab-no-such-program"], Value::Null);
    assert!(facts["settings"]["/proc/sys/net/core/rmem_max"].is_string());
    assert_eq!(facts["settings"]["/proc/sys/no"], Value::Null);
    assert_eq!(facts["features"].as_object().unwrap().len(), 43);
    assert!(facts["cpus"].as_u64() > Some(0) && facts["memory_bytes"].as_u64() > Some(1 << 20));
}

#[test]
fn offloads_agree_with_ethtool() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let facts = read_quickly(&mut agent, json!({}));
    for interface in facts["interfaces"].as_array().unwrap() {
        let name = interface["name"].as_str().unwrap();
        let offloads = interface["offloads"].as_object().unwrap();
        let is_real = Path::new("/sys/class/net").join(name).join("device").exists();
        let shown = Command::new("ethtool").args(["-k", name]).output();
        let Some(shown) = shown.ok().filter(|_| is_real && agent.hello["uid"] == 0) else {
            assert!(offloads.is_empty(), "{interface}");
            continue;
        };
        let shown = String::from_utf8(shown.stdout).unwrap();
        let lines = shown.lines().filter_map(|line| line.trim().split_once(": "));
        let lines: Vec<_> =
            lines.map(|(name, value)| (name.to_owned(), json!(value.starts_with("on")))).collect();
        assert!(!lines.is_empty());
        assert_eq!(offloads, &lines.into_iter().collect());
    }
}

#[test]
fn dropped_frames_are_reported_with_their_place() {
    if !is_root("dropped_frames_are_reported_with_their_place") {
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
