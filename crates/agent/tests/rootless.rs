//! Tests of an agent without root, which works in separate namespaces.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::path::Path;

use common::{eventually, processes_with, sleep_mark, start_as_nobody, state_folder};
use serde_json::json;

#[test]
fn plain_user_can_use_namespaces_links_shaping_and_settings() {
    let folder = state_folder();
    let Some(mut agent) =
        start_as_nobody(folder.path(), "plain_user_can_use_namespaces_links_shaping_and_settings")
    else {
        return;
    };
    for name in ["iolab-t-a", "iolab-t-b"] {
        agent.call("netns.create", json!({"name": name}));
    }
    for (netns, line) in [
        ("iolab-t-a", "ip link add e0 type veth peer name e0 netns iolab-t-b"),
        ("iolab-t-a", "ip address add 198.18.0.1/24 dev e0"),
        ("iolab-t-b", "ip address add 198.18.0.2/24 dev e0"),
        ("iolab-t-a", "ip link set e0 mtu 9000 up"),
        ("iolab-t-b", "ip link set e0 mtu 9000 up"),
        ("iolab-t-a", "tc qdisc add dev e0 root tbf rate 100mbit burst 100kb latency 10ms"),
        ("iolab-t-a", "cat /sys/class/net/e0/mtu"),
    ] {
        let argv: Vec<&str> = line.split(' ').collect();
        let ran = agent.call("command.run", json!({"argv": argv, "netns": netns}));
        assert_eq!(ran["exit_status"], 0, "{line}: {ran}");
    }
    agent.call(
        "setting.write",
        json!({"path": "/proc/sys/net/ipv4/ip_forward", "netns": "iolab-t-a", "value": "1"}),
    );
    let reading =
        agent.call("sample.read", json!({"samplers": ["interfaces", "qdiscs"], "netns": ["iolab-t-a"]}));
    assert!(reading.to_string().contains("\"kind\":\"tbf\""));
    let facts = agent.call("facts.read", json!({}));
    assert_eq!(facts["features"]["link:veth"], true);
    assert!(!Path::new("/run/netns/iolab-t-a").exists(), "nothing is seen outside");
    agent.close_stdin();
    assert_eq!(agent.wait().code(), Some(0));
}

#[test]
fn only_processes_need_an_undo_after_the_crash_of_a_rootless_agent() {
    let folder = state_folder();
    let mark = sleep_mark(20);
    let Some(mut agent) =
        start_as_nobody(folder.path(), "only_processes_need_an_undo_after_the_crash_of_a_rootless_agent")
    else {
        return;
    };
    agent.call("netns.create", json!({"name": "iolab-t-a"}));
    let ready = json!({"kind": "output", "contains": "started"});
    let script = format!("sleep {mark} & echo started; sleep {mark}");
    let started = agent.call(
        "process.start",
        json!({"id": "p", "argv": ["sh", "-c", script], "netns": "iolab-t-a", "ready": ready}),
    );
    agent.crash();
    eventually("the leader is collected", || !Path::new(&format!("/proc/{}", started["pid"])).exists());
    let Some(mut next) = start_as_nobody(folder.path(), "the next agent") else { return };
    assert_eq!(next.hello["predecessors"][0]["entries"], 1);
    let journal = next.hello["predecessors"][0]["journal"].clone();
    assert_eq!(next.refusal("netns.create", json!({"name": "iolab-t-a"}))["code"], -32003);
    assert_eq!(next.call("journal.undo", json!({"journal": journal}))["failed"], json!([]));
    eventually("the processes end", || processes_with(&mark).is_empty());
    next.call("netns.create", json!({"name": "iolab-t-a"}));
    next.crash();
    let Some(last) = start_as_nobody(folder.path(), "the last agent") else { return };
    assert_eq!(last.hello["predecessors"], json!([]), "its namespaces died with it");
}

#[test]
fn disk_file_of_a_killed_rootless_agent_is_removed_by_the_next() {
    let (folder, test) = (state_folder(), "disk_file_of_a_killed_rootless_agent_is_removed_by_the_next");
    let Some(mut agent) = start_as_nobody(folder.path(), test) else { return };
    let file = folder.path().join("volume");
    let undo = json!({"kind": "command", "argv": ["rm", "-f", file]});
    agent.call("command.run", json!({"argv": ["touch", file], "undo": undo, "undo_key": "volume:v"}));
    let gone = json!({"kind": "command", "argv": ["false"]});
    agent.call("command.run", json!({"argv": ["true"], "undo": gone, "undo_key": "of its namespaces"}));
    agent.crash();
    assert!(file.exists());

    let mut next = start_as_nobody(folder.path(), test).unwrap();
    let predecessor = next.hello["predecessors"][0].clone();
    assert_eq!(predecessor["entries"], 1);
    let report = next.call("journal.undo", json!({"journal": predecessor["journal"]}));
    assert_eq!(report["failed"], json!([]));
    assert!(!file.exists());
    next.close_stdin();
    next.wait();
}
