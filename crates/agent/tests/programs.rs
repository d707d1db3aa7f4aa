//! Tests of the state of interfaces after use: unusable interfaces are unchanged, and XDP programs of other owners are
//! restored.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::process::Command;

use common::lab::Lab;
use common::{eventually, is_root, netns_exists, state_folder, Agent};
use serde_json::{json, Value};

#[test]
fn unusable_interfaces_are_refused_and_unchanged() {
    if !is_root("unusable_interfaces_are_refused_and_unchanged") {
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
        // The port that was opened before the refused one is closed again.
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
fn existing_xdp_program_is_replaced_only_on_request() {
    if !is_root("existing_xdp_program_is_replaced_only_on_request") {
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

/// An XDP program that is attached to an interface without a BPF link, as `ip link` does, and the folder in which it is
/// pinned.
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
        iolab_sys::bpf::keep_program(id.parse().unwrap(), &path).unwrap();
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
fn replaced_xdp_program_is_restored_on_close_and_after_a_crash() {
    if !is_root("replaced_xdp_program_is_restored_on_close_and_after_a_crash") {
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
    // The namespaces remain, so that the program's attachment point still exists.
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
