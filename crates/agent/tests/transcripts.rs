//! Test that the real binary repeats every session recorded in `contract/transcripts`. The README of that folder
//! defines the comparison.
//!
//! `IOLAB_RECORD=1 cargo test -p iolab-agent --test transcripts` rewrites the agent's side of every session.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{is_root, netns_name, state_folder, Agent};
use serde_json::{json, Value};

/// Name of the namespace in the recorded files; each replay uses a different name.
const NETNS: &str = "iolab-t-transcript";

/// Keys whose values differ between sessions; the values of these keys, and of keys that end in `_ns` or `_ticks`, are
/// compared by type only.
const VOLATILE: [&str; 29] = [
    "version",
    "build",
    "pid",
    "uid",
    "rootless",
    "state_dir",
    "capabilities",
    "limits",
    "busy_pid",
    "message",
    "reason",
    "seen",
    "observations",
    "readings",
    "mac",
    "waiting",
    "kicks",
    "busy_answers",
    "blocked_polls",
    "bursts",
    "slices_frames",
    "arrived_slices_frames",
    "after_end_frames",
    "stalls",
    "stall_count",
    "thread",
    "socket",
    "foreign_frames",
    "program_id",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract/transcripts")
}

fn sessions() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    if !is_root("the session with devices") {
        paths.retain(|path| path.file_stem().is_none_or(|stem| stem != "device"));
    }
    paths.sort();
    paths
}

fn is_volatile(key: &str) -> bool {
    VOLATILE.contains(&key) || key.ends_with("_ns") || key.ends_with("_ticks")
}

fn same_type(one: &Value, other: &Value) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// Return the first place where `seen` differs from `recorded`; `None` if they agree.
fn difference(recorded: &Value, seen: &Value, place: &str) -> Option<String> {
    let told = || Some(format!("{place}: recorded {recorded}, seen {seen}"));
    match (recorded, seen) {
        (Value::Object(recorded), Value::Object(seen)) => {
            // Ignore the order of the keys, because it depends on the build.
            if recorded.len() != seen.len() || !recorded.keys().all(|key| seen.contains_key(key)) {
                return told();
            }
            recorded.iter().find_map(|(key, value)| {
                let place = format!("{place}.{key}");
                if is_volatile(key) {
                    (!same_type(value, &seen[key]))
                        .then(|| format!("{place}: recorded {value}, seen {}", seen[key]))
                } else {
                    difference(value, &seen[key], &place)
                }
            })
        }
        (Value::Array(recorded), Value::Array(seen)) if recorded.len() == seen.len() => {
            let mut pairs = recorded.iter().zip(seen).enumerate();
            pairs.find_map(|(index, (recorded, seen))| {
                difference(recorded, seen, &format!("{place}[{index}]"))
            })
        }
        _ if recorded == seen => None,
        _ => told(),
    }
}

/// Run the session at `path` with the real binary, and return the exchanged lines.
fn have(path: &Path, netns: &str) -> Vec<Value> {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let mut hello = json!({"jsonrpc": "2.0", "method": "hello", "params": agent.hello});
    hello["params"]["state_dir"] = json!("/run/iolab");
    let mut lines = vec![json!({"from_agent": hello})];
    let text = fs::read_to_string(path).unwrap();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let Some(request) = line.get("to_agent") else { continue };
        agent.write(format!("{request}\n").replace(NETNS, netns).as_bytes());
        lines.push(line.clone());
        let answer = agent.receive().to_string().replace(netns, NETNS);
        let answer = answer.replace(state.path().to_str().unwrap(), "/run/iolab");
        lines.push(json!({"from_agent": serde_json::from_str::<Value>(&answer).unwrap()}));
    }
    agent.close_stdin();
    agent.wait();
    lines
}

#[test]
fn every_recorded_session_replays_identically() {
    let paths = sessions();
    assert!(!paths.is_empty());
    for path in paths {
        let seen = have(&path, &netns_name("transcript"));
        if std::env::var_os("IOLAB_RECORD").is_some() {
            let text = seen.iter().fold(String::new(), |text, line| format!("{text}{line}\n"));
            fs::write(&path, text).unwrap();
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let recorded: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(recorded.len(), seen.len(), "{}", path.display());
        for (number, (recorded, seen)) in recorded.iter().zip(&seen).enumerate() {
            let place = format!("{}:{}", path.file_name().unwrap().to_string_lossy(), number + 1);
            assert_eq!(difference(recorded, seen, &place), None);
        }
    }
}

#[test]
fn difference_between_sessions_is_found_unless_its_key_is_volatile() {
    let recorded = json!({"pid": 1, "end_ns": 2, "list": [{"value": 3}]});
    assert_eq!(difference(&recorded, &json!({"pid": 9, "end_ns": 9, "list": [{"value": 3}]}), ""), None);
    for seen in [
        json!({"pid": null, "end_ns": 2, "list": [{"value": 3}]}),
        json!({"pid": 1, "end_ns": 2, "list": [{"value": 4}]}),
        json!({"pid": 1, "end_ns": 2, "list": []}),
        json!({"pid": 1, "list": [{"value": 3}]}),
    ] {
        assert!(difference(&recorded, &seen, "").is_some(), "{seen}");
    }
}
