//! Tests with the real binary of devices between two ports: which frames they forward, delay and drop.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use common::lab::{number, sender, Lab, SECOND_NS, TRIES};
use common::{is_root, state_folder, Agent};
use serde_json::{json, Value};

#[test]
fn token_bucket_passes_its_rate_and_burst() {
    if !is_root("token_bucket_passes_its_rate_and_burst") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "bucket", 3);
    let opened = lab.open("auto");
    let impairment = json!({
        "kind": "line",
        "rate": {"kind": "frames", "frames": 50_000, "per_ns": SECOND_NS, "burst_frames": 10_000},
        "queue": {"kind": "frames", "frames": 0},
    });
    let action = json!({"kind": "forward", "interface": "right"});
    let device = json!({"id": "dut", "netns": lab.netns[1], "interface": "left", "impairments": [impairment], "action": action});
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
    // The bucket absorbs the frames of a sender stall of up to 200 ms; frames are lost only after a longer stall.
    let stalled_ns: u64 = sent["stalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stall| number(&stall["end_ns"]) - number(&stall["begin_ns"]))
        .sum();
    // On a busy host, the sender may not even offer the frames that the bucket would pass.
    let (most, least) = (110_000, 110_000_u64.saturating_sub(stalled_ns / 20_000).min(offered));
    assert!(passed <= most + 500 && passed + 500 >= least, "{passed} of {least} to {most}");
    assert_eq!(received["lost_frames"], offered - number(&received["received_frames"]));
}

/// Run one trial at `frames_per_second` through a device that forwards with `impairment` in both directions.
fn run_through(lab: &mut Lab, impairment: &Value, frames_per_second: u64) -> (Value, Value, u64) {
    for (id, from, to) in [("there", "left", "right"), ("back", "right", "left")] {
        let action = json!({"kind": "forward", "interface": to});
        let device = json!({"id": id, "netns": lab.netns[1], "interface": from, "impairments": [impairment], "action": action});
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
    let offered = number(&ran["senders"][0]["offered_frames"]);
    assert!(decided(&counts) <= offered, "{counts} of {offered}");
    (ran["receivers"][0].clone(), counts, offered)
}

/// Return the number of frames that a device forwarded or dropped. Other frames are still in the device if this machine
/// stalled the device until the end of the trial.
fn decided(counts: &Value) -> u64 {
    number(&counts["passed_frames"]) + number(&counts["dropped_frames"])
}

#[test]
fn delaying_device_holds_every_frame_for_its_delay() {
    if !is_root("delaying_device_holds_every_frame_for_its_delay") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "delay", 3);
    for delay_ns in [0, 1_000_000, 20_000_000] {
        let impairment = json!({"kind": "delay", "delay_ns": delay_ns});
        // The typical lateness depends on the load of this machine, but on any machine no frame is early and some
        // frames are on time.
        let prompt = (0..TRIES).any(|_| {
            let (received, counts, offered) = run_through(&mut lab, &impairment, 5_000);
            assert_eq!((&counts["dropped_frames"], &received["reordered_frames"]), (&json!(0), &json!(0)));
            let least = number(&received["latency_ns"]["min"]);
            assert!(least >= delay_ns, "no frame is early: {received}");
            number(&counts["passed_frames"]) == offered && least < delay_ns + 1_000_000
        });
        assert!(prompt, "{delay_ns}");
    }
}

#[test]
fn stalling_device_holds_frames_until_the_end_of_the_stall() {
    if !is_root("stalling_device_holds_frames_until_the_end_of_the_stall") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "stall", 3);
    let impairment = json!({"kind": "stall", "length_ns": SECOND_NS / 50, "every_ns": SECOND_NS / 5});
    let as_told = (0..TRIES).any(|_| {
        let (received, counts, offered) = run_through(&mut lab, &impairment, 5_000);
        assert_eq!((&counts["dropped_frames"], &received["reordered_frames"]), (&json!(0), &json!(0)));
        let (latency, most) = (&received["latency_ns"], number(&received["latency_ns"]["max"]));
        // Stalls take a tenth of the time, and the frames that arrive in them wait for half a stall on average; on a
        // busy machine both figures are larger.
        let mean = number(&latency["sum"]) / number(&latency["count"]);
        number(&counts["passed_frames"]) == offered
            && most >= 19_500_000
            && mean > 500_000
            && number(&latency["min"]) < 1_000_000
    });
    assert!(as_told);
}

/// A user-space line of 8 Mbit/s carries 1000 frames of 1000 B per second, and its queue holds 50 of the excess frames.
#[test]
fn user_space_line_carries_its_rate() {
    if !is_root("user_space_line_carries_its_rate") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "line", 3);
    let line = |queue: Value| json!({"kind": "line", "rate": {"kind": "bits", "bps": 64 * 8 * 1000}, "queue": queue});
    // Send at five times the line rate, because a sender on a busy machine may send much less than requested, and below
    // the line rate no frame waits.
    let filled = (0..TRIES).any(|_| {
        let (received, counts, offered) =
            run_through(&mut lab, &line(json!({"kind": "frames", "frames": 50})), 5_000);
        // Regardless of sender stalls, at most the frames of one second and those in the queue leave the device.
        let (passed, dropped) = (number(&counts["passed_frames"]), number(&counts["dropped_frames"]));
        assert!(passed <= 1_060, "{counts}");
        assert!(number(&received["lost_frames"]) >= dropped, "{received}");
        // Each of 50 frames waits for one millisecond.
        number(&received["lost_frames"]) == dropped
            && decided(&counts) == offered
            && dropped > 0
            && number(&received["latency_ns"]["max"]) >= 50_000_000
    });
    assert!(filled);
}

/// A line of 500 kbit/s receives 100 echo requests of 1 kB eight times as fast as it can send them: the kernel at the
/// far end counts the requests that arrive with the codepoint CE. A frame without the codepoint ECT is never marked.
#[test]
fn user_space_line_marks_frames_that_support_ecn() {
    if !is_root("user_space_line_marks_frames_that_support_ecn") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "ecn", 3);
    let [near, middle, far] = [0, 1, 2].map(|place: usize| lab.netns[place].clone());
    for (netns, interface, address) in [(&near, "right", "198.18.0.1/24"), (&far, "left", "198.18.0.2/24")] {
        lab.agent.run(&["ip", "-n", netns, "addr", "add", address, "dev", interface]);
    }
    let line = json!({
        "kind": "line", "rate": {"kind": "bits", "bps": 500_000}, "queue": {"kind": "frames", "frames": 1000},
        "mark_above": {"kind": "frames", "frames": 1},
    });
    for (id, from, to) in [("there", "left", "right"), ("back", "right", "left")] {
        let action = json!({"kind": "forward", "interface": to});
        let device =
            json!({"id": id, "netns": middle, "interface": from, "impairments": [line], "action": action});
        assert_eq!(lab.agent.call("device.start", device)["mode"], "user");
    }
    for (tos, marked) in [("0", 0..=0), ("2", 50..=100)] {
        let echo =
            ["ping", "-q", "-c", "100", "-i", "0.002", "-s", "1000", "-W", "5", "-Q", tos, "198.18.0.2"];
        lab.agent.run(&[&["ip", "netns", "exec", &near], &echo[..]].concat());
        let counted = lab.agent.run(&["ip", "netns", "exec", &far, "nstat", "-asz", "IpExtInCEPkts"]);
        let count: u64 = counted
            .split_whitespace()
            .skip_while(|word| *word != "IpExtInCEPkts")
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        assert!(marked.contains(&count), "{tos}: {counted}");
    }
}

#[test]
fn invalid_devices_are_refused() {
    if !is_root("invalid_devices_are_refused") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "never", 2);
    let forward = json!({"kind": "forward", "interface": "lo"});
    let delay = json!({"kind": "delay", "delay_ns": 5});
    for (impairment, action, more) in [
        (&json!({"kind": "delay", "delay_ns": 11 * SECOND_NS}), &forward, json!({})),
        (&json!({"kind": "stall", "length_ns": 5, "every_ns": 4}), &forward, json!({})),
        (&json!({"kind": "stall", "length_ns": 0, "every_ns": 0}), &forward, json!({})),
        (&delay, &json!({"kind": "reflect"}), json!({})),
        (&json!({"kind": "loss_every", "frames": 9}), &forward, json!({"cpu": 0})),
    ] {
        let mut device = json!({"id": "dut", "netns": lab.netns[0], "interface": "right", "impairments": [impairment], "action": action});
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(lab.agent.refusal("device.start", device)["code"], -32602, "{impairment} {action}");
    }
    let delayed = |more: Value| {
        let mut device = json!({"id": "dut", "netns": lab.netns[0], "interface": "right", "impairments": [delay], "action": forward});
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        device
    };
    for more in [json!({"cpu": 100_000}), json!({"priority": 100}), json!({"interface": "none"})] {
        assert_eq!(lab.agent.refusal("device.start", delayed(more))["code"], -32001);
    }
    assert!(!lab.link(0, "right").contains("prog/xdp"), "nothing stays attached");
}
