//! Leases between real agents: who gets what, and how a resource passes on.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{state_folder, Agent, PATIENCE};
use nix::sys::signal::{kill, Signal};
use serde_json::{json, Value};

const BUSY: i64 = -32003;

/// A request for resources; those after `~` are shared.
fn wanted(names: &str) -> Value {
    let resource =
        |word: &str| json!({"name": word.trim_start_matches('~'), "shared": word.starts_with('~')});
    let resources: Vec<Value> = names.split_whitespace().map(resource).collect();
    json!({"lab": names, "resources": resources, "stopped_ms": 100})
}

fn take(agent: &mut Agent, names: &str) -> u64 {
    agent.call("lease.take", wanted(names))["number"].as_u64().unwrap()
}

/// Start a program that runs until the agent ends it; the journal has it.
fn change(agent: &mut Agent) {
    agent.call("process.start", json!({"id": "p", "argv": ["sleep", "600"]}));
}

/// An agent that is killed after a change.
fn leave_changed(state: &Path, names: &str) {
    let mut killed = Agent::start(state);
    take(&mut killed, names);
    change(&mut killed);
    kill(killed.pid(), Signal::SIGKILL).unwrap();
}

#[test]
fn agents_with_disjoint_leases_work_at_once_and_leave_each_other_alone() {
    let state = state_folder();
    let (mut first, mut second) = (Agent::start(state.path()), Agent::start(state.path()));
    take(&mut first, "port:a ~page-cache");
    take(&mut second, "port:b ~page-cache");
    change(&mut first);
    change(&mut second);
    first.call("agent.exit", json!({}));
    drop(first);
    assert_eq!(
        second.call("journal.list", json!({"journal": "self"}))["entries"].as_array().unwrap().len(),
        1
    );
    let third = Agent::start(state.path());
    assert_eq!(third.hello["predecessors"], json!([]));
    assert_eq!(third.hello["holders"][0]["lab"], "port:b ~page-cache");
}

#[test]
fn a_held_resource_is_refused_with_its_holder_and_passes_on_with_a_higher_number() {
    let state = state_folder();
    let (mut first, mut second) = (Agent::start(state.path()), Agent::start(state.path()));
    let number = take(&mut first, "cpu:1 port:a");
    let refusal = second.refusal("lease.take", wanted("port:a port:b"));
    assert_eq!(refusal["code"], BUSY);
    let holder = &refusal["data"]["holders"][0];
    assert_eq!((&holder["pid"], &holder["lab"]), (&first.hello["pid"], &json!("cpu:1 port:a")));
    assert_eq!(holder["resources"], json!([{"name": "port:a", "shared": false}]));
    first.call("agent.exit", json!({}));
    drop(first);
    assert!(take(&mut second, "port:a port:b") > number);
}

#[test]
fn an_agent_without_a_lease_works_alone() {
    let state = state_folder();
    let (mut alone, mut other) = (Agent::start(state.path()), Agent::start(state.path()));
    change(&mut alone);
    assert_eq!(other.refusal("lease.take", wanted("port:a"))["data"]["busy_pid"], alone.hello["pid"]);
    alone.call("agent.exit", json!({}));
    drop(alone);
    take(&mut other, "port:a");
    let mut late = Agent::start(state.path());
    let refusal = late.refusal("process.start", json!({"id": "p", "argv": ["true"]}));
    assert_eq!((&refusal["code"], &refusal["data"]["busy_pid"]), (&json!(BUSY), &other.hello["pid"]));
}

#[test]
fn of_the_first_requests_of_an_agent_without_a_lease_none_is_refused() {
    for _ in 0..20 {
        let state = state_folder();
        let mut agent = Agent::start(state.path());
        let asked: Vec<i64> =
            (0..8).map(|id| agent.send("folder.create", &json!({"name": format!("f{id}")}))).collect();
        for id in asked {
            assert_eq!(agent.answer(id)["error"], Value::Null);
        }
    }
}

#[test]
fn of_two_agents_that_find_a_dead_ones_changes_at_once_one_waits_for_the_other() {
    let state = state_folder();
    for round in 0..10 {
        leave_changed(state.path(), "port:a");
        let (mut first, mut second) = (Agent::start(state.path()), Agent::start(state.path()));
        let ids = [first.send("lease.take", &wanted("port:a")), second.send("lease.take", &wanted("port:a"))];
        let answers = [first.answer(ids[0]), second.answer(ids[1])];
        let refused: Vec<&Value> =
            answers.iter().map(|one| &one["error"]).filter(|one| !one.is_null()).collect();
        assert!(refused.iter().all(|one| one["data"]["holders"].is_array()), "{round}: {answers:?}");
    }
}

#[test]
fn what_a_killed_holder_left_is_undone_before_its_resources_pass_on() {
    let state = state_folder();
    leave_changed(state.path(), "port:a");
    let mut elsewhere = Agent::start(state.path());
    assert_eq!(elsewhere.call("lease.take", wanted("port:b"))["undone"], 0);
    change(&mut elsewhere);
    let mut next = Agent::start(state.path());
    assert_eq!(next.call("lease.take", wanted("port:a"))["undone"], 1);
    assert_eq!(Agent::start(state.path()).hello["predecessors"], json!([]));
}

#[test]
fn a_stopped_holder_is_ended_after_a_while_and_what_it_did_is_undone() {
    let state = state_folder();
    let (mut stopped, mut next) = (Agent::start(state.path()), Agent::start(state.path()));
    take(&mut stopped, "port:a");
    change(&mut stopped);
    kill(stopped.pid(), Signal::SIGSTOP).unwrap();
    let mut ask = || {
        let id = next.send("lease.take", &wanted("port:a"));
        next.answer(id)
    };
    let deadline = Instant::now() + PATIENCE;
    let mut begun = Instant::now();
    while ask()["error"]["data"]["holders"][0]["stopped"] == false && Instant::now() < deadline {
        begun = Instant::now();
    }
    // It has been seen stopped once, after `begun`: it may go on yet.
    let leased = loop {
        let answer = ask();
        if answer["error"].is_null() {
            break answer["result"].clone();
        }
        assert!(Instant::now() < deadline, "{answer}");
        std::thread::sleep(Duration::from_millis(10)); // it asks as a controller does that waits
    };
    assert!(begun.elapsed() > Duration::from_millis(80));
    assert_eq!((&leased["ended"], &leased["undone"]), (&json!([stopped.hello["pid"]]), &json!(1)));
}

#[test]
fn a_lease_that_has_passed_on_changes_nothing_more() {
    let state = state_folder();
    let mut late = Agent::start(state.path());
    take(&mut late, "port:a");
    fs::remove_dir_all(state.path().join("leases")).unwrap();
    take(&mut Agent::start(state.path()), "port:a");
    let refusal = late.refusal("process.start", json!({"id": "p", "argv": ["true"]}));
    assert_eq!(refusal["code"], BUSY);
    assert!(refusal["message"].as_str().unwrap().contains("has passed on"));
}

#[test]
fn a_journal_of_a_dead_agent_is_undone_while_others_work() {
    let state = state_folder();
    leave_changed(state.path(), "port:a");
    let mut at_work = Agent::start(state.path());
    take(&mut at_work, "port:b");
    change(&mut at_work);
    let mut cleaner = Agent::start(state.path());
    let journal = cleaner.hello["predecessors"][0]["journal"].clone();
    assert_eq!(cleaner.call("journal.undo", json!({"journal": journal}))["undone"], 1);
}

#[test]
fn a_name_that_is_none_and_an_empty_lease_are_refused() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    assert_eq!(agent.refusal("lease.take", wanted("../lock"))["data"]["seen"], "../lock");
    assert_eq!(agent.refusal("lease.take", wanted(""))["code"], -32602);
    take(&mut agent, "port:a");
    assert_eq!(agent.refusal("lease.take", wanted("port:b"))["code"], BUSY);
}
