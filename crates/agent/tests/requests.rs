//! Tests with the real binary of commands, processes and the limits of the protocol.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{is_root, state_folder, Agent, BINARY};
use nix::sys::signal::Signal;
use serde_json::{json, Value};

#[test]
fn command_reports_its_exit_status_and_output() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let params = json!({"argv": ["sh", "-c", "cat; echo $WORD; echo oops >&2; exit 3"], "stdin": "in,", "env": {"WORD": "out"}});
    let ran = agent.call("command.run", params);
    assert_eq!(ran["exit_status"], 3);
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("in,out\n"), &json!("oops\n")));
    assert!(ran["begin_ns"].as_u64() < ran["end_ns"].as_u64());
    let killed = agent.call("command.run", json!({"argv": ["sh", "-c", "kill -9 $$"]}));
    assert_eq!((&killed["exit_status"], &killed["signal"]), (&Value::Null, &json!(9)));
}

#[test]
fn programs_start_with_default_signal_handling() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let status = agent.run(&["cat", "/proc/self/status"]);
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let signals = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let set = |name: &str| signals(&status, name);
    // Under nohup, or in the background of a script, these tests themselves start with ignored signals.
    let given = signals(&own, "SigIgn:");
    let bits = |signals: &[i32]| signals.iter().fold(0_u64, |bits, signal| bits | 1 << (signal - 1));
    assert_eq!(set("SigBlk:"), 0);
    let ends_a_program =
        [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGPIPE].map(|signal| signal as i32);
    assert_eq!(set("SigIgn:") & bits(&ends_a_program) & !given, 0);
}

#[test]
fn program_that_cannot_be_started_is_an_error_with_its_reason() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let missing = agent.refusal("command.run", json!({"argv": ["iperf4"]}));
    assert_eq!(
        missing,
        json!({"code": -32001, "message": "starting program 'iperf4': no such file", "data": {"errno": 2, "path": "iperf4"}})
    );
    let folder = agent.refusal("command.run", json!({"argv": ["/tmp"]}));
    assert_eq!(folder["data"]["errno"], 13);
    for argv in [json!([]), json!([""]), json!(["a\u{0}b"])] {
        assert_eq!(agent.refusal("command.run", json!({"argv": argv}))["code"], -32602);
    }
    let placed = agent.refusal("command.run", json!({"argv": ["true"], "netns": "iolab-t-absent"}));
    assert_eq!(placed["data"], json!({"errno": 2, "path": "/run/netns/iolab-t-absent"}));
    let supervised = agent.refusal("process.start", json!({"id": "p", "argv": ["iperf4"]}));
    assert_eq!(supervised["data"]["errno"], 2);
    assert_eq!(agent.refusal("process.wait", json!({"id": "p"}))["code"], -32004);
}

#[test]
fn command_beyond_its_timeout_is_killed_with_its_children() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let begin = Instant::now();
    let ran = agent.call(
        "command.run",
        json!({"argv": ["sh", "-c", "echo begun; sleep 60 & sleep 60"], "timeout_ms": 3000}),
    );
    assert!(begin.elapsed().as_secs() < 50);
    assert_eq!(ran["timed_out"], true);
    assert_eq!((&ran["signal"], &ran["stdout"]), (&json!(9), &json!("begun\n")));
}

#[test]
fn long_output_is_truncated_and_the_rest_is_counted() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let ran = agent.call("command.run", json!({"argv": ["seq", "100000"], "capture_bytes": 4}));
    assert_eq!((&ran["stdout"], &ran["stdout_dropped_bytes"]), (&json!("1\n2\n"), &json!(588_891)));
    let controls = "head -c 4000000 /dev/zero; head -c 4000000 /dev/zero >&2";
    let ran = agent.call("command.run", json!({"argv": ["sh", "-c", controls], "capture_bytes": 4 << 20}));
    let kept = ran["stdout"].as_str().unwrap().len() as u64;
    assert_eq!(kept + ran["stdout_dropped_bytes"].as_u64().unwrap(), 4_000_000);
    assert_eq!(
        agent.refusal("command.run", json!({"argv": ["true"], "capture_bytes": (4 << 20) + 1}))["code"],
        -32602
    );
}

#[test]
fn input_larger_than_a_pipe_reaches_the_program() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let ran = agent.call("command.run", json!({"argv": ["wc", "-c"], "stdin": "x".repeat(3_000_000)}));
    assert_eq!(ran["stdout"], "3000000\n");
    let unread = agent.call("command.run", json!({"argv": ["true"], "stdin": "x".repeat(3_000_000)}));
    assert_eq!(unread["exit_status"], 0);
}

#[test]
fn hundred_concurrent_requests_are_all_answered() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let begin = Instant::now();
    let ids: Vec<i64> = (0..100)
        .map(|number| {
            agent.send("command.run", &json!({"argv": ["sh", "-c", format!("sleep 1; echo {number}")]}))
        })
        .collect();
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(agent.answer(id)["result"]["stdout"], format!("{number}\n"));
    }
    assert!(begin.elapsed().as_secs() < 60, "they do not run side by side");
}

#[test]
fn garbage_is_refused_and_the_next_request_is_answered() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let mut code = |line: &[u8]| {
        agent.write(line);
        agent.write(b"\n");
        let answer = agent.receive();
        (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap())
    };
    assert_eq!(code(b"hello?"), (Value::Null, -32700));
    assert_eq!(code(b"\n \r\nafter empty lines"), (Value::Null, -32700));
    assert_eq!(code(b"\xff\xfe\x00"), (Value::Null, -32700));
    assert_eq!(code(b"[]"), (Value::Null, -32600));
    assert_eq!(code(&vec![b'x'; 17 << 20]), (Value::Null, -32600));
    assert_eq!(code(br#"{"jsonrpc":"2.0","id":9,"method":"no.such"}"#), (json!(9), -32601));
    assert_eq!(
        code(br#"{"jsonrpc":"2.0","id":9,"method":"agent.ping","params":{"a":1}}"#),
        (json!(9), -32602)
    );
    agent.call("agent.ping", json!({}));
}

#[test]
fn second_agent_refuses_changes_until_the_first_has_ended() {
    let state = state_folder();
    let mut first = Agent::start(state.path());
    let start = json!({"id": "p", "argv": ["true"]});
    first.call("process.start", start.clone());
    let mut second = Agent::start(state.path());
    assert_eq!(first.hello["busy_pid"], Value::Null);
    assert_eq!(second.hello["busy_pid"], first.hello["pid"]);
    let refusal = second.refusal("process.start", start.clone());
    assert_eq!((&refusal["code"], &refusal["data"]["busy_pid"]), (&json!(-32003), &first.hello["pid"]));
    assert_eq!(second.run(&["echo", "allowed"]), "allowed\n");
    first.call("agent.exit", json!({}));
    drop(first);
    second.call("process.start", start);
}

#[test]
fn process_is_ready_when_its_port_is_bound() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    for (kind, port, listen) in [("STREAM", 25_817, "s.listen()"), ("DGRAM", 25_818, "pass")] {
        let script = format!(
            "import socket,time;time.sleep(0.05);s=socket.socket(socket.AF_INET,socket.SOCK_{kind});s.bind(('127.0.0.1',{port}));{listen};time.sleep(60)"
        );
        let protocol = if kind == "STREAM" { "tcp" } else { "udp" };
        let ready = json!({"kind": "listening", "protocol": protocol, "port": port});
        let params =
            json!({"id": kind, "argv": ["python3", "-c", script], "ready": ready, "timeout_ms": 50000});
        let started = agent.call("process.start", params);
        assert!(started["ready_ns"].as_u64().unwrap() - started["begin_ns"].as_u64().unwrap() > 50_000_000);
        assert_eq!(agent.call("process.stop", json!({"id": kind}))["signal"], 15);
    }
}

#[test]
fn port_bound_by_a_foreign_process_does_not_make_a_process_ready() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    // The process sleeps until the agent ends it after the test.
    let serve = "import socket,time;s=socket.socket();s.bind(('127.0.0.1',25819));s.listen();time.sleep(60)";
    let ready = json!({"kind": "listening", "protocol": "tcp", "port": 25_819});
    let parent = ["sh", "-c", &format!("python3 -c \"{serve}\"; true")];
    agent.call("process.start", json!({"id": "server", "argv": parent, "ready": ready, "timeout_ms": 50000}));
    let other = json!({"id": "other", "argv": ["sleep", "60"], "ready": ready, "timeout_ms": 200});
    assert_eq!(agent.refusal("process.start", other)["code"], -32002);
}

#[test]
fn process_that_does_not_become_ready_is_stopped_and_removed() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let ready = json!({"kind": "output", "contains": "never"});
    let late =
        json!({"id": "p", "argv": ["sh", "-c", "echo hm; sleep 60"], "ready": ready, "timeout_ms": 3000});
    let refusal = agent.refusal("process.start", late);
    assert_eq!(
        (&refusal["code"], &refusal["data"]),
        (&json!(-32002), &json!({"timeout_ms": 3000, "output": "hm\n"}))
    );
    let ends = json!({"id": "p", "argv": ["sh", "-c", "echo bad >&2; exit 4"], "ready": ready});
    let refusal = agent.refusal("process.start", ends);
    assert_eq!(refusal["code"], -32001);
    assert_eq!(refusal["data"], json!({"path": "sh", "output": "bad\n", "exit_status": 4}));
    assert_eq!(agent.call("journal.list", json!({"journal": "self"})), json!({"entries": []}));
    agent.call("process.start", json!({"id": "p", "argv": ["true"]}));
}

#[test]
fn process_can_be_awaited_and_stopped() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let burn = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exit 5";
    agent.call("process.start", json!({"id": "burn", "argv": ["sh", "-c", burn]}));
    assert_eq!(agent.refusal("process.start", json!({"id": "burn", "argv": ["true"]}))["code"], -32602);
    let ended = agent.call("process.wait", json!({"id": "burn"}));
    assert_eq!(ended["exit_status"], 5);
    let spent_ns = ended["cpu_user_ns"].as_u64().unwrap() + ended["cpu_system_ns"].as_u64().unwrap();
    let lasted_ns = ended["end_ns"].as_u64().unwrap() - ended["begin_ns"].as_u64().unwrap();
    assert!(spent_ns > 1_000_000 && spent_ns <= lasted_ns * 11 / 10, "{ended}");

    agent.call(
        "process.start",
        json!({"id": "stubborn", "argv": ["sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.1; done"],
        "ready": {"kind": "output", "contains": "set"}}),
    );
    let late = agent.refusal("process.wait", json!({"id": "stubborn", "timeout_ms": 30}));
    assert_eq!((&late["code"], &late["data"]["timeout_ms"]), (&json!(-32002), &json!(30)));
    assert_eq!(agent.call("process.stop", json!({"id": "stubborn", "grace_ms": 50}))["signal"], 9);
    assert_eq!(agent.refusal("process.stop", json!({"id": "stubborn"}))["code"], -32004);
}

#[test]
fn process_runs_on_its_assigned_cpus() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    agent.call(
        "process.start",
        json!({"id": "p", "argv": ["grep", "Cpus_allowed_list", "/proc/self/status"], "cpus": [0]}),
    );
    assert_eq!(agent.call("process.wait", json!({"id": "p"}))["stdout"], "Cpus_allowed_list:\t0\n");
    let refusal = agent.refusal("process.start", json!({"id": "p", "argv": ["true"], "cpus": [900]}));
    assert_eq!((&refusal["code"], &refusal["data"]["errno"]), (&json!(-32001), &json!(22)));
}

/// Return the error output of an agent that fails to start.
fn last_words(state: &Path) -> String {
    let output = Command::new(BINARY).env("IOLAB_STATE_DIR", state).stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn insecure_state_folder_is_refused_and_unchanged() {
    let folder = state_folder();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::create_dir(&target).unwrap();
    symlink(&target, &link).unwrap();
    assert!(last_words(&link).contains("no symbolic link"));
    fs::set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
    assert!(last_words(&target).contains("open to other users (mode 0755)"));
    if is_root("insecure_state_folder_is_refused_and_unchanged: the owner's part") {
        fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
        chown(&target, Some(12_345), None).unwrap();
        assert!(last_words(&target).contains("belongs to user 12345"));
    }
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    assert!(last_words(&folder.path().join("no/parent")).contains("no/parent"));
}

#[test]
fn state_folder_is_accessible_only_to_the_user() {
    let folder = state_folder();
    let state = folder.path().join("state");
    let mut agent = Agent::start(&state);
    agent.call("process.start", json!({"id": "p", "argv": ["sleep", "60"]}));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode(&state), mode(&state.join("journal")), mode(&state.join("lock"))),
        (0o700, 0o700, 0o600)
    );
    let journals = fs::read_dir(state.join("journal")).unwrap();
    assert_eq!(journals.map(|file| mode(&file.unwrap().path())).collect::<Vec<_>>(), [0o600]);
}

#[test]
fn binary_prints_its_version_and_is_statically_linked() {
    let version = Command::new(BINARY).arg("--version").output().unwrap();
    assert_eq!(
        String::from_utf8(version.stdout).unwrap(),
        format!("iolab-agent {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(Command::new(BINARY).arg("--nonsense").output().unwrap().status.code() == Some(2));
    let linked = Command::new("ldd").arg(BINARY).output().unwrap();
    assert!(!String::from_utf8_lossy(&linked.stdout).contains(".so"));
}
