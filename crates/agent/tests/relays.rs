//! Tests with the real binary of relays to sockets, terminals and agents behind agents.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{state_folder, Agent, BINARY};
use nix::pty::openpty;
use serde_json::{json, Value};

/// Number of lines of one mebibyte that the peer sends without a request.
const FLOOD: usize = 40;

/// Start an agent with a relay "x" to this test.
fn relayed(state: &Path) -> (Agent, UnixStream) {
    let mut agent = Agent::start(state);
    let path = state.join("other");
    let listener = UnixListener::bind(&path).unwrap();
    let opened = agent.call("relay.open", json!({"id": "x", "at": {"kind": "socket", "path": path}}));
    assert!(opened["begin_ns"].as_u64() <= opened["end_ns"].as_u64());
    (agent, listener.accept().unwrap().0)
}

fn received(agent: &mut Agent) -> Value {
    let notification = agent.notification();
    assert_eq!(notification["method"], "relay.received", "{notification}");
    notification["params"]["message"].clone()
}

#[test]
fn messages_and_noise_are_relayed_in_order_and_the_end_is_reported_once() {
    let state = state_folder();
    let (mut agent, mut other) = relayed(state.path());
    other.write_all(b"{\"id\":1}\r\n[ 0.1] kernel\n\xff{\n{\"id\" : 2}\nrest").unwrap();
    drop(other);
    let told: Vec<Value> = (0..6).map(|_| agent.notification()).collect();
    let params: Vec<&Value> = told.iter().map(|each| &each["params"]).collect();
    assert_eq!(params[0], &json!({"id": "x", "message": {"id": 1}}));
    assert_eq!(params[1], &json!({"id": "x", "text": "[ 0.1] kernel", "dropped": 0}));
    assert_eq!(params[2], &json!({"id": "x", "text": "\u{fffd}{", "dropped": 0}));
    assert_eq!(params[3], &json!({"id": "x", "message": {"id": 2}}));
    assert_eq!(params[4], &json!({"id": "x", "text": "rest", "dropped": 0}));
    assert_eq!(told[5]["method"], "relay.ended");
    assert_eq!(params[5], &json!({"id": "x", "reason": "the other side closed it", "dropped": 0}));
    for method in ["relay.close", "relay.send"] {
        let params =
            if method == "relay.send" { json!({"id": "x", "message": {}}) } else { json!({"id": "x"}) };
        assert_eq!(agent.refusal(method, params)["code"], -32004);
    }
}

#[test]
fn relay_waits_until_the_peer_exists() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let path = state.path().join("late");
    let id = agent.send("relay.open", &json!({"id": "x", "at": {"kind": "socket", "path": path}}));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(100) {
        agent.call("agent.ping", json!({}));
    }
    let listener = UnixListener::bind(&path).unwrap();
    let mut other = listener.accept().unwrap().0;
    assert!(agent.answer(id)["result"].is_object());
    other.write_all(b"{\"QMP\":{}}\r\n").unwrap();
    assert_eq!(received(&mut agent), json!({"QMP": {}}));
}

#[test]
fn unreachable_peer_is_refused_with_the_reason() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let mut refused =
        |id: &str, at: Value| agent.refusal("relay.open", json!({"id": id, "at": at, "timeout_ms": 50}));
    let late = refused("x", json!({"kind": "socket", "path": "/no/such/socket"}));
    assert_eq!(late["code"], -32002);
    assert_eq!(late["data"], json!({"errno": 2, "path": "/no/such/socket", "timeout_ms": 50}));
    let no_socket = refused("x", json!({"kind": "socket", "path": "/proc/self/stat"}));
    assert_eq!((&no_socket["code"], &no_socket["data"]["errno"]), (&json!(-32001), &json!(88)));
    let no_terminal = refused("x", json!({"kind": "terminal", "path": "/dev/null"}));
    assert_eq!((&no_terminal["code"], &no_terminal["data"]["errno"]), (&json!(-32001), &json!(25)));
    for (id, path) in [("", "/x"), ("a b", "/x"), ("x", "relative"), ("\"", "/x"), ("x", "/a\u{0}b")] {
        assert_eq!(refused(id, json!({"kind": "socket", "path": path}))["code"], -32602);
    }
}

#[test]
fn messages_are_sent_in_request_order() {
    let state = state_folder();
    let (mut agent, other) = relayed(state.path());
    let ids: Vec<i64> = (0..2000)
        .map(|number| agent.send("relay.send", &json!({"id": "x", "message": {"number": number}})))
        .collect();
    let mut lines = BufReader::new(other).lines();
    for number in 0..2000 {
        assert_eq!(lines.next().unwrap().unwrap(), format!("{{\"number\":{number}}}"));
    }
    for id in ids {
        assert_eq!(agent.answer(id)["result"], json!({}));
    }
}

#[test]
fn only_json_objects_are_sent() {
    let state = state_folder();
    let (mut agent, mut other) = relayed(state.path());
    for message in ["3", "[]", "\"{}\"", "null", "{\r}"] {
        let params = format!("{{\"id\":\"x\",\"message\":{message}}}");
        agent.write(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"relay.send\",\"params\":{params}}}\n")
                .as_bytes(),
        );
        assert_eq!(agent.answer(99)["error"]["code"], -32602, "{message}");
    }
    agent.call("relay.send", json!({"id": "x", "message": {"a": 1}}));
    let mut line = [0; 8];
    other.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"{\"a\":1}\n");
}

#[test]
fn peer_that_does_not_read_is_reported_and_blocks_no_other_request() {
    let state = state_folder();
    let (mut agent, mut other) = relayed(state.path());
    let large = json!({"text": "x".repeat(12 << 20)});
    let send = json!({"id": "x", "message": large, "timeout_ms": 100});
    let ids: Vec<i64> = (0..4).map(|_| agent.send("relay.send", &send)).collect();
    agent.call("agent.ping", json!({}));
    let codes: Vec<Value> = ids.iter().map(|&id| agent.answer(id)["error"]["code"].clone()).collect();
    // The socket may contain a little over a megabyte of the first line.
    assert_eq!(codes, [json!(null), json!(-32003), json!(-32003), json!(-32003)]);
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while text.split(|&byte| byte == b'\n').count() < 3 {
            let length = other.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..length]);
        }
        text
    });
    agent.call("relay.send", json!({"id": "x", "message": {"last": true}}));
    let text = reader.join().unwrap();
    assert_eq!(text.len(), (12 << 20) + "{\"text\":\"\"}\n{\"last\":true}\n".len());
}

#[test]
fn flood_from_the_peer_is_throttled_to_the_controllers_pace() {
    let state = state_folder();
    let (mut agent, mut other) = relayed(state.path());
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1 << 20));
    let resident = |agent: &Agent| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
        line.trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let writer = thread::spawn(move || {
        (0..5 * FLOOD).for_each(|_| other.write_all(line.as_bytes()).unwrap());
        other
    });
    let pass_on = |agent: &mut Agent, lines: usize| {
        (0..lines).for_each(|_| assert_eq!(received(agent)["text"].as_str().unwrap().len(), 1 << 20));
        resident(agent)
    };
    // The agent does not keep relayed data: after five times the data it uses hardly more memory. Only the growth is
    // checked, because the memory for one line depends on the compiler.
    let first_kb = pass_on(&mut agent, FLOOD);
    let all_kb = pass_on(&mut agent, 4 * FLOOD);
    assert!(all_kb - first_kb < first_kb / 2, "{first_kb} kB after {FLOOD} lines, {all_kb} kB after all");
    drop(writer.join().unwrap());
    assert_eq!(agent.notification()["method"], "relay.ended");
}

#[test]
fn any_input_bytes_leave_agent_and_messages_intact() {
    let state = state_folder();
    let (mut agent, mut other) = relayed(state.path());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::new();
    for _ in 0..200_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        bytes.push(random.to_le_bytes()[0]);
    }
    let writer = thread::spawn(move || {
        for part in bytes.chunks(777) {
            other.write_all(part).unwrap();
            other.write_all(b"\n{\"whole\":true}\n").unwrap();
        }
        other.write_all(&vec![b'{'; 17 << 20]).unwrap();
        other.write_all(b"\n{\"last\":true}\n").unwrap();
        other
    });
    let mut whole = 0;
    loop {
        let notification = agent.notification();
        match &notification["params"]["message"] {
            Value::Null => assert!(notification["params"]["text"].as_str().unwrap().len() <= 3 * 4096),
            message if message["whole"] == true => whole += 1,
            message => {
                assert_eq!(message, &json!({"last": true}));
                break;
            }
        }
    }
    assert_eq!(whole, 258);
    agent.call("agent.ping", json!({}));
    drop(writer.join().unwrap());
}

/// Make an agent serve on a socket, as a guest's agent does on its channel.
fn agent_behind(state: &Path, socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    let state = state.to_owned();
    thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let mut process = Command::new(BINARY);
        process.env("IOLAB_STATE_DIR", state);
        process.stdin(Stdio::from(std::os::fd::OwnedFd::from(stream.try_clone().unwrap())));
        process.stdout(Stdio::from(std::os::fd::OwnedFd::from(stream)));
        process.spawn().unwrap().wait().unwrap();
    });
}

#[test]
fn agent_behind_two_relays_is_reachable() {
    let states = [state_folder(), state_folder(), state_folder()];
    let mut agent = Agent::start(states[0].path());
    let sockets = [states[0].path().join("1"), states[0].path().join("2")];
    agent_behind(states[1].path(), &sockets[0]);
    agent_behind(states[2].path(), &sockets[1]);
    let open = |path: &Path| json!({"id": "in", "at": {"kind": "socket", "path": path}});
    agent.call("relay.open", open(&sockets[0]));
    assert_eq!(received(&mut agent)["method"], "hello");
    let inner = json!({"jsonrpc": "2.0", "id": 1, "method": "relay.open", "params": open(&sockets[1])});
    agent.call("relay.send", json!({"id": "in", "message": inner}));
    assert_eq!(received(&mut agent)["id"], 1);
    let hello = received(&mut agent);
    assert_eq!(hello["params"]["message"]["method"], "hello");
    assert_eq!(hello["params"]["message"]["params"]["state_dir"], states[2].path().to_str().unwrap());
    let text = "quotes \" and \\ and \n and \u{2028} ".repeat(1000);
    let run = json!({"jsonrpc": "2.0", "id": 5, "method": "command.run", "params": {"argv": ["cat"], "stdin": text}});
    let inner =
        json!({"jsonrpc": "2.0", "id": 2, "method": "relay.send", "params": {"id": "in", "message": run}});
    agent.call("relay.send", json!({"id": "in", "message": inner}));
    assert_eq!(received(&mut agent), json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    assert_eq!(received(&mut agent)["params"]["message"]["result"]["stdout"], text);
    agent.call("relay.close", json!({"id": "in"}));
    assert_eq!(agent.notification()["params"], json!({"id": "in", "reason": "closed", "dropped": 0}));
}

#[test]
fn relayed_terminal_is_raw_and_its_end_is_reported() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let pty = openpty(None, None).unwrap();
    let path = std::fs::read_link(format!("/proc/self/fd/{}", pty.slave.as_raw_fd())).unwrap();
    let before = nix::sys::termios::tcgetattr(&pty.slave).unwrap();
    agent.call("relay.open", json!({"id": "x", "at": {"kind": "terminal", "path": path}}));
    let mut master = std::fs::File::from(pty.master);
    master.write_all(b"[ 0.1] boot\r\n{\"id\":\"\x03\"}\n{\"id\":1}\n").unwrap();
    assert_eq!(agent.notification()["params"]["text"], "[ 0.1] boot");
    assert_eq!(agent.notification()["method"], "relay.noise");
    assert_eq!(received(&mut agent), json!({"id": 1}));
    agent.call("relay.send", json!({"id": "x", "message": {"text": "\u{7}"}}));
    let mut echo = [0; 18];
    master.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"{\"text\":\"\\u0007\"}\n", "no echo, no carriage return");
    agent.call("relay.close", json!({"id": "x"}));
    assert_eq!(nix::sys::termios::tcgetattr(&pty.slave).unwrap(), before);
    agent.notification();
    agent.call("relay.open", json!({"id": "x", "at": {"kind": "terminal", "path": path}}));
    drop(master);
    assert_eq!(agent.notification()["params"]["reason"], "the other side closed it");
}

#[test]
fn relay_id_is_free_again_only_after_the_relay_has_ended() {
    let state = state_folder();
    let (mut agent, mut first) = relayed(state.path());
    let open = json!({"id": "x", "at": {"kind": "socket", "path": state.path().join("other")}});
    assert_eq!(agent.refusal("relay.open", open)["code"], -32602);
    agent.call("relay.close", json!({"id": "x"}));
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    assert_eq!(agent.notification()["params"]["reason"], "closed");
    let path = state.path().join("second");
    let listener = UnixListener::bind(&path).unwrap();
    agent.call("relay.open", json!({"id": "x", "at": {"kind": "socket", "path": path}}));
    let mut second = listener.accept().unwrap().0;
    agent.close_stdin();
    assert!(agent.wait().success());
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
}
