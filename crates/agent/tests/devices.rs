//! Devices between two ports, through the real binary: what they let through, hold and refuse.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use common::lab::{number, sender, Lab, SECOND_NS, TRIES};
use common::{is_root, state_folder, Agent};
use serde_json::{json, Value};

#[test]
fn a_token_bucket_lets_through_what_it_says() {
    if !is_root("a_token_bucket_lets_through_what_it_says") {
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
    // The bucket keeps what the sender, held up, leaves for 200 ms; only a longer stall is lost to it.
    let stalled_ns: u64 = sent["stalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stall| number(&stall["end_ns"]) - number(&stall["begin_ns"]))
        .sum();
    let (most, least) = (110_000, 110_000 - stalled_ns / 20_000);
    assert!(passed <= most + 500 && passed + 500 >= least, "{passed} of {least} to {most}");
    assert_eq!(received["lost_frames"], offered - number(&received["received_frames"]));
}

/// One trial at `frames_per_second` through a device in the middle that forwards with `impairment` both ways.
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

/// Frames that a device let through or lost. Others wait in it where this machine held it up until the trial was over.
fn decided(counts: &Value) -> u64 {
    number(&counts["passed_frames"]) + number(&counts["dropped_frames"])
}

#[test]
fn a_delaying_device_holds_every_frame_for_its_delay() {
    if !is_root("a_delaying_device_holds_every_frame_for_its_delay") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "delay", 3);
    for delay_ns in [0, 1_000_000, 20_000_000] {
        let impairment = json!({"kind": "delay", "delay_ns": delay_ns});
        // How late most are depends on what else this machine does; that none is early does not, and some are prompt.
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
fn a_stalling_device_holds_what_arrives_until_the_stall_is_over() {
    if !is_root("a_stalling_device_holds_what_arrives_until_the_stall_is_over") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "stall", 3);
    let impairment = json!({"kind": "stall", "length_ns": SECOND_NS / 50, "every_ns": SECOND_NS / 5});
    let as_told = (0..TRIES).any(|_| {
        let (received, counts, offered) = run_through(&mut lab, &impairment, 5_000);
        assert_eq!((&counts["dropped_frames"], &received["reordered_frames"]), (&json!(0), &json!(0)));
        let (latency, most) = (&received["latency_ns"], number(&received["latency_ns"]["max"]));
        // A tenth of the time is stalls, in which frames wait for half of it on average; a busy machine adds to both.
        let mean = number(&latency["sum"]) / number(&latency["count"]);
        number(&counts["passed_frames"]) == offered
            && most >= 19_500_000
            && mean > 500_000
            && number(&latency["min"]) < 1_000_000
    });
    assert!(as_told);
}

/// A line in user space: 8 Mbit/s carry 1000 frames of 1000 B in a second, and the queue takes 50 of those that are too many.
#[test]
fn a_line_in_user_space_carries_its_rate() {
    if !is_root("a_line_in_user_space_carries_its_rate") {
        return;
    }
    let state = state_folder();
    let mut lab = Lab::new(Agent::start(state.path()), "line", 3);
    let line = |queue: Value| json!({"kind": "line", "rate": {"kind": "bits", "bps": 64 * 8 * 1000}, "queue": queue});
    // Five times what the line carries: on a busy machine a sender may send much less, and then nothing waits.
    let filled = (0..TRIES).any(|_| {
        let (received, counts, offered) =
            run_through(&mut lab, &line(json!({"kind": "frames", "frames": 50})), 5_000);
        // However the sender was held up, no more leave than in a second and from the queue.
        let (passed, dropped) = (number(&counts["passed_frames"]), number(&counts["dropped_frames"]));
        assert!(passed <= 1_060, "{counts}");
        assert!(number(&received["lost_frames"]) >= dropped, "{received}");
        // 50 frames wait for a millisecond each.
        number(&received["lost_frames"]) == dropped
            && decided(&counts) == offered
            && dropped > 0
            && number(&received["latency_ns"]["max"]) >= 50_000_000
    });
    assert!(filled);
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
