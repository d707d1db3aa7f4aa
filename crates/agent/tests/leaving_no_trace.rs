//! Tests that the changes of an agent are undone, however the agent ends: by the agent itself, or by the next agent.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{
    eventually, ip, is_root, netns_exists, netns_name, processes_with, sleep_mark, state_folder, Agent, Netns,
};
use nix::sys::signal::Signal;
use serde_json::json;

/// A setting that begins with 0 in every new namespace; forwarding is copied from the host.
const SETTING: &str = "/proc/sys/net/ipv4/ip_no_pmtu_disc";

fn setting_in(netns: &str) -> String {
    ip(&["netns", "exec", netns, "cat", SETTING]).trim().to_owned()
}

/// A supervised shell with a child process.
fn start_family(agent: &mut Agent, mark: &str, netns: Option<&str>) -> i32 {
    let script = format!("sleep {mark} & echo started; sleep {mark}");
    let ready = json!({"kind": "output", "contains": "started"});
    let started = agent.call(
        "process.start",
        json!({"id": "family", "argv": ["sh", "-c", script], "netns": netns, "ready": ready}),
    );
    eventually("shell and child both run", || processes_with(mark).len() >= 2);
    i32::try_from(started["pid"].as_i64().unwrap()).unwrap()
}

/// Make one change of every kind; the agent did not create the namespace `inside`.
fn change_everything(agent: &mut Agent, made: &str, inside: &str, mark: &str) {
    agent.call("netns.create", json!({"name": made}));
    agent.call("setting.write", json!({"path": SETTING, "netns": inside, "value": "1"}));
    let undo = json!({"kind": "command", "argv": ["ip", "link", "delete", "iolab-t0"], "netns": inside});
    let argv = ["ip", "link", "add", "iolab-t0", "type", "bridge"];
    agent.call(
        "command.run",
        json!({"argv": argv, "netns": inside, "undo": undo, "undo_key": "link:iolab-t0"}),
    );
    start_family(agent, mark, Some(made));
    assert_eq!(setting_in(inside), "1");
    assert!(netns_exists(made));
}

fn assert_all_gone(made: &str, inside: &str, mark: &str) {
    eventually("all processes end", || processes_with(mark).is_empty());
    assert!(!netns_exists(made));
    assert_eq!(setting_in(inside), "0");
    assert!(!ip(&["-netns", inside, "link"]).contains("iolab-t0"));
}

#[test]
fn napi_thread_setting_without_napi_counts_as_undone() {
    let test = "napi_thread_setting_without_napi_counts_as_undone";
    if !is_root(test) {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let inside = Netns::make("napi");
    ip(&["-n", &inside.0, "link", "add", "one", "type", "veth", "peer", "name", "other"]);
    ip(&["-n", &inside.0, "link", "set", "one", "up"]);
    let gro = |state| ip(&["netns", "exec", &inside.0, "ethtool", "-K", "one", "gro", state]);
    gro("on");
    let threaded = json!({"path": "/sys/class/net/one/threaded", "netns": inside.0, "value": "1"});
    assert_eq!(agent.call("setting.write", threaded)["original"], "0");
    gro("off");
    let undone = agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!((&undone["undone"], &undone["failed"]), (&json!(1), &json!([])));
}

#[test]
fn closing_standard_input_undoes_all_changes() {
    if !is_root("closing_standard_input_undoes_all_changes") {
        return;
    }
    let (state, inside, made, mark) =
        (state_folder(), Netns::make("eof-in"), netns_name("eof"), sleep_mark(1));
    let mut agent = Agent::start(state.path());
    change_everything(&mut agent, &made, &inside.0, &mark);
    agent.close_stdin();
    assert_eq!(agent.wait().code(), Some(0));
    assert_all_gone(&made, &inside.0, &mark);
    assert_eq!(std::fs::read_dir(state.path().join("journal")).unwrap().count(), 0);
}

#[test]
fn termination_signals_undo_all_changes_and_sigint_is_ignored() {
    if !is_root("termination_signals_undo_all_changes_and_sigint_is_ignored") {
        return;
    }
    for (number, signal) in [(2, Signal::SIGTERM), (3, Signal::SIGHUP)] {
        let (state, inside, made, mark) =
            (state_folder(), Netns::make("sig-in"), netns_name("sig"), sleep_mark(number));
        let mut agent = Agent::start(state.path());
        change_everything(&mut agent, &made, &inside.0, &mark);
        agent.signal(Signal::SIGINT);
        agent.call("agent.ping", json!({}));
        agent.signal(signal);
        assert_eq!(agent.wait().code(), Some(0));
        assert_all_gone(&made, &inside.0, &mark);
    }
}

#[test]
fn exit_request_undoes_all_changes_and_reports_their_number() {
    if !is_root("exit_request_undoes_all_changes_and_reports_their_number") {
        return;
    }
    let (state, inside, made, mark) =
        (state_folder(), Netns::make("exit-in"), netns_name("exit"), sleep_mark(4));
    let mut agent = Agent::start(state.path());
    change_everything(&mut agent, &made, &inside.0, &mark);
    assert_eq!(agent.call("agent.exit", json!({})), json!({"undone": 4, "failed": []}));
    assert_eq!(agent.wait().code(), Some(0));
    assert_all_gone(&made, &inside.0, &mark);
}

#[test]
fn agent_after_a_crash_refuses_changes_until_the_old_journal_is_undone() {
    if !is_root("agent_after_a_crash_refuses_changes_until_the_old_journal_is_undone") {
        return;
    }
    let (state, inside, made, mark) =
        (state_folder(), Netns::make("kill-in"), netns_name("kill"), sleep_mark(5));
    let mut agent = Agent::start(state.path());
    change_everything(&mut agent, &made, &inside.0, &mark);
    agent.crash();
    assert_eq!(setting_in(&inside.0), "1");

    let mut next = Agent::start(state.path());
    let predecessor = next.hello["predecessors"][0].clone();
    assert_eq!(predecessor["entries"], 4);
    let journal = predecessor["journal"].clone();
    for (method, params) in [
        ("process.start", json!({"id": "p", "argv": ["true"]})),
        ("netns.create", json!({"name": netns_name("refused")})),
        ("setting.write", json!({"path": SETTING, "netns": inside.0, "value": "1"})),
    ] {
        let refusal = next.refusal(method, params);
        assert_eq!(refusal["code"], -32003);
        assert_eq!(refusal["data"]["journals"], json!([journal]));
    }
    assert_eq!(next.run(&["echo", "reading is allowed"]), "reading is allowed\n");
    assert_eq!(next.call("setting.read", json!({"path": SETTING, "netns": inside.0})), json!({"value": "1"}));

    let keys = json!([format!("setting:{}:{SETTING}", inside.0)]);
    let undone = next.call("journal.undo", json!({"journal": journal, "keys": keys}));
    assert_eq!(undone, json!({"undone": 1, "failed": []}));
    assert_eq!(setting_in(&inside.0), "0");
    assert_eq!(
        next.call("journal.list", json!({"journal": journal}))["entries"].as_array().unwrap().len(),
        3
    );
    assert_eq!(next.call("journal.undo", json!({"journal": journal})), json!({"undone": 3, "failed": []}));
    assert_all_gone(&made, &inside.0, &mark);
    assert_eq!(next.refusal("journal.list", json!({"journal": journal}))["code"], -32004);
    next.call("process.start", json!({"id": "p", "argv": ["true"]}));
}

#[test]
fn journal_draft_of_a_dead_agent_is_removed_and_blocks_nobody() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    agent.call("process.start", json!({"id": "p", "argv": ["sleep", "60"]}));
    agent.crash();
    let journals = state.path().join("journal");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&journals).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let left = journals.join(&names()[0]);
    std::fs::copy(&left, left.with_extension("draft")).unwrap();
    std::fs::remove_file(&left).unwrap();

    let mut next = Agent::start(state.path());
    assert_eq!(next.hello["predecessors"], json!([]));
    assert_eq!(names(), [""; 0]);
    next.call("process.start", json!({"id": "p", "argv": ["true"]}));
}

#[test]
fn agent_crash_kills_supervised_programs_at_once_and_their_children_at_undo() {
    let (state, mark) = (state_folder(), sleep_mark(6));
    let mut agent = Agent::start(state.path());
    if agent.hello["rootless"] == true {
        return;
    }
    let leader = start_family(&mut agent, &mark, None);
    agent.crash();
    eventually("the leader ends", || !processes_with(&mark).contains(&leader));
    eventually("the leader is collected", || !Path::new(&format!("/proc/{leader}")).exists());
    let mut next = Agent::start(state.path());
    let journal = next.hello["predecessors"][0]["journal"].clone();
    next.call("journal.undo", json!({"journal": journal}));
    eventually("its child ends", || processes_with(&mark).is_empty());
}

#[test]
fn daemon_started_by_a_command_ends_with_the_agent() {
    let (state, mark) = (state_folder(), sleep_mark(7));
    let mut agent = Agent::start(state.path());
    let begin = Instant::now();
    let flag = state.path().join("flag").display().to_string();
    let daemon =
        format!("setsid sh -c ': >{flag}; exec sleep {mark}' & until [ -e {flag} ]; do sleep 0.01; done");
    agent.run(&["sh", "-c", &daemon]);
    assert!(begin.elapsed().as_secs() < 60, "an output held open by a daemon must not hold the answer");
    assert_eq!(processes_with(&mark).len(), 1);
    agent.close_stdin();
    assert_eq!(agent.wait().code(), Some(0));
    eventually("the daemon ends", || processes_with(&mark).is_empty());
}

#[test]
fn running_program_is_killed_when_the_agent_ends() {
    let (state, mark) = (state_folder(), sleep_mark(8));
    let mut agent = Agent::start(state.path());
    agent.send("command.run", &json!({"argv": ["sleep", mark]}));
    eventually("the program begins", || !processes_with(&mark).is_empty());
    agent.close_stdin();
    assert_eq!(agent.wait().code(), Some(0));
    eventually("the program ends", || processes_with(&mark).is_empty());
}

#[test]
fn deleting_a_namespace_discards_the_undo_of_changes_inside() {
    if !is_root("deleting_a_namespace_discards_the_undo_of_changes_inside") {
        return;
    }
    let (state, name, mark) = (state_folder(), netns_name("moot"), sleep_mark(9));
    let mut agent = Agent::start(state.path());
    agent.call("netns.create", json!({"name": name}));
    assert_eq!(agent.refusal("netns.create", json!({"name": name}))["data"]["errno"], 17);
    agent.call("setting.write", json!({"path": SETTING, "netns": name, "value": "1"}));
    start_family(&mut agent, &mark, Some(&name));
    agent.call("netns.delete", json!({"name": name}));
    eventually("the processes end", || processes_with(&mark).is_empty());
    assert!(!netns_exists(&name));
    let ended = agent.call("process.wait", json!({"id": "family"}));
    assert_eq!(ended["signal"], 9);
    assert_eq!(agent.call("journal.list", json!({"journal": "self"})), json!({"entries": []}));
    assert_eq!(agent.refusal("netns.delete", json!({"name": name}))["data"]["errno"], 2);
}

#[test]
fn namespace_that_the_agent_did_not_create_is_left_unchanged() {
    if !is_root("namespace_that_the_agent_did_not_create_is_left_unchanged") {
        return;
    }
    let (state, theirs) = (state_folder(), Netns::make("theirs"));
    let mut agent = Agent::start(state.path());
    let refusal = agent.refusal("netns.delete", json!({"name": theirs.0}));
    assert_eq!((&refusal["code"], &refusal["data"]["id"]), (&json!(-32004), &json!(theirs.0)));
    assert_eq!(agent.refusal("netns.create", json!({"name": theirs.0}))["data"]["errno"], 17);
    agent.call("agent.exit", json!({}));
    assert!(netns_exists(&theirs.0));
}

#[test]
fn namespace_created_concurrently_by_others_is_not_deleted() {
    if !is_root("namespace_created_concurrently_by_others_is_not_deleted") {
        return;
    }
    let (state, name) = (state_folder(), netns_name("raced"));
    // Replacement for `ip` that first creates the namespace itself, as if a different process had been faster.
    let (draft, first) = (state.path().join("draft"), state.path().join("ip"));
    let script = "#!/bin/sh\nPATH=${PATH#*:}\n[ \"$1 $2\" = \"netns add\" ] && ip \"$@\"\nexec ip \"$@\"\n";
    std::fs::write(&draft, script).unwrap();
    common::install_program(&draft, &first);
    let path = format!("{}:{}", state.path().display(), std::env::var("PATH").unwrap());
    let mut agent = Agent::start_by(Command::new(common::BINARY).env("PATH", path), state.path());
    assert_eq!(agent.refusal("netns.create", json!({"name": name}))["data"]["errno"], 17);
    assert_eq!(agent.call("journal.list", json!({"journal": "self"})), json!({"entries": []}));
    assert!(netns_exists(&name));
    ip(&["netns", "delete", &name]);
}

#[test]
fn concurrent_creations_of_one_namespace_create_it_once() {
    if !is_root("concurrent_creations_of_one_namespace_create_it_once") {
        return;
    }
    let (state, name) = (state_folder(), netns_name("twice"));
    let mut agent = Agent::start(state.path());
    let ids = [(); 4].map(|()| agent.send("netns.create", &json!({"name": name})));
    let refused = ids.into_iter().filter(|&id| agent.answer(id)["error"]["data"]["errno"] == 17).count();
    assert_eq!(refused, 3);
    assert!(netns_exists(&name));
    assert_eq!(agent.call("agent.exit", json!({})), json!({"undone": 1, "failed": []}));
    assert!(!netns_exists(&name));
}

#[test]
fn controller_that_stops_reading_cannot_block_the_end_of_the_agent() {
    let (state, mark) = (state_folder(), sleep_mark(10));
    let mut command = Command::new(common::BINARY);
    let command = command.env("IOLAB_STATE_DIR", state.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    let mut stdin = agent.stdin.take().unwrap();
    for id in 0..60 {
        let argv = if id == 0 { json!(["sleep", mark]) } else { json!(["seq", "50000"]) };
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "command.run", "params": {"argv": argv}});
        stdin.write_all(format!("{request}\n").as_bytes()).unwrap();
    }
    eventually("the program begins", || !processes_with(&mark).is_empty());
    drop(stdin);
    let ended = agent.wait().unwrap();
    assert_eq!(ended.code(), Some(0));
    eventually("the program ends", || processes_with(&mark).is_empty());
}

#[test]
fn controller_that_closes_its_reading_end_ends_the_agent() {
    let (state, mark) = (state_folder(), sleep_mark(11));
    let mut command = Command::new(common::BINARY);
    let command = command.env("IOLAB_STATE_DIR", state.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    let mut stdin = agent.stdin.take().unwrap();
    let start = json!({"jsonrpc": "2.0", "id": 1, "method": "process.start", "params": {"id": "p", "argv": ["sleep", mark]}});
    stdin.write_all(format!("{start}\n").as_bytes()).unwrap();
    eventually("the program begins", || !processes_with(&mark).is_empty());
    drop(agent.stdout.take());
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "agent.ping", "params": {}});
    stdin.write_all(format!("{ping}\n").as_bytes()).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    eventually("the program ends", || processes_with(&mark).is_empty());
}
