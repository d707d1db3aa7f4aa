//! Tests of leases between real agents: which agent gets a resource, and how the resource passes to the next agent.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{state_folder, Agent, PATIENCE};
use nix::sys::signal::{kill, Signal};
use serde_json::{json, Value};

const BUSY: i64 = -32003;

/// Return a request for resources; a name that starts with `~` is requested as shared.
fn wanted(names: &str) -> Value {
    let resource =
        |word: &str| json!({"name": word.trim_start_matches('~'), "shared": word.starts_with('~')});
    let resources: Vec<Value> = names.split_whitespace().map(resource).collect();
    json!({"lab": names, "resources": resources, "stopped_ms": 100})
}

fn take(agent: &mut Agent, names: &str) -> u64 {
    agent.call("lease.take", wanted(names))["number"].as_u64().unwrap()
}

/// Start a program that is in the journal and runs until the agent ends it.
fn change(agent: &mut Agent) {
    agent.call("process.start", json!({"id": "p", "argv": ["sleep", "600"]}));
}

/// Start an agent, let it make a change, and kill it.
fn leave_changed(state: &Path, names: &str) {
    let mut killed = Agent::start(state);
    take(&mut killed, names);
    change(&mut killed);
    kill(killed.pid(), Signal::SIGKILL).unwrap();
}

#[test]
fn agents_with_disjoint_leases_work_concurrently() {
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
fn leased_resource_is_refused_with_its_holder_and_leased_later_with_a_higher_number() {
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
fn agent_without_a_lease_has_exclusive_use_of_the_host() {
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
fn concurrent_first_requests_without_a_lease_are_all_accepted() {
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
fn one_of_two_agents_that_find_changes_of_a_dead_agent_waits_for_the_other() {
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
fn changes_of_a_killed_holder_are_undone_before_its_resources_are_leased_again() {
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
fn stopped_holder_is_ended_after_a_timeout_and_its_changes_are_undone() {
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
    // The process was observed as stopped once after `begun`; it may continue later.
    let leased = loop {
        let answer = ask();
        if answer["error"].is_null() {
            break answer["result"].clone();
        }
        assert!(Instant::now() < deadline, "{answer}");
        std::thread::sleep(Duration::from_millis(10)); // like a waiting controller
    };
    assert!(begun.elapsed() > Duration::from_millis(80));
    assert_eq!((&leased["ended"], &leased["undone"]), (&json!([stopped.hello["pid"]]), &json!(1)));
}

#[test]
fn transferred_lease_permits_no_further_changes() {
    let state = state_folder();
    let mut late = Agent::start(state.path());
    take(&mut late, "port:a");
    fs::remove_dir_all(state.path().join("leases")).unwrap();
    let refusal = Agent::start(state.path()).refusal("lease.take", wanted("port:a"));
    assert_eq!(refusal["data"]["busy_pid"], late.hello["pid"]); // the holder lives
    let refusal = late.refusal("process.start", json!({"id": "p", "argv": ["true"]}));
    assert_eq!(refusal["code"], BUSY);
    assert!(refusal["message"].as_str().unwrap().contains("has passed on"));
}

#[test]
fn journal_of_a_dead_agent_is_undone_while_other_agents_work() {
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
fn facts_are_read_without_a_lease() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    agent.call("facts.read", json!({"programs": ["ip"]}));
    take(&mut agent, "port:a");
}

#[test]
fn agent_with_a_lost_lease_runs_no_command() {
    let state = state_folder();
    let mut late = Agent::start(state.path());
    take(&mut late, "port:a");
    fs::remove_dir_all(state.path().join("leases")).unwrap();
    assert_eq!(late.refusal("command.run", json!({"argv": ["true"]}))["code"], BUSY);
}

#[test]
fn journal_of_a_dead_agent_contains_the_name_of_its_lab() {
    let state = state_folder();
    leave_changed(state.path(), "port:a");
    let next = Agent::start(state.path());
    assert_eq!(next.hello["predecessors"][0]["lab"], "port:a");
}

#[test]
fn invalid_resource_name_and_empty_lease_are_refused() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    assert_eq!(agent.refusal("lease.take", wanted("../lock"))["data"]["seen"], "../lock");
    assert_eq!(agent.refusal("lease.take", wanted(""))["code"], -32602);
    take(&mut agent, "port:a");
    assert_eq!(agent.refusal("lease.take", wanted("port:b"))["code"], BUSY);
}
