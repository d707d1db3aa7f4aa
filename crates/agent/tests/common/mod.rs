//! The real binary as a child of a test, with a state folder of its own.

#![allow(dead_code)] // each test file uses a part of it

pub mod lab;

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

pub const BINARY: &str = env!("CARGO_BIN_EXE_iolab-agent");

/// Longer than anything here takes on a busy machine, also one that stands still for a while.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running agent. It is ended when it is dropped.
pub struct Agent {
    pub hello: Value,
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    early: HashMap<i64, Value>,
    told: VecDeque<Value>,
    last_id: i64,
}

impl Agent {
    pub fn start(state: &Path) -> Self {
        Self::start_by(&mut Command::new(BINARY), state)
    }

    /// Start the agent by `command`, which becomes it.
    pub fn start_by(command: &mut Command, state: &Path) -> Self {
        let command = command.env("IOLAB_STATE_DIR", state).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON on stdout: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let hello = lines.recv_timeout(PATIENCE).unwrap();
        Self {
            hello: hello["params"].clone(),
            process,
            stdin,
            lines,
            early: HashMap::new(),
            told: VecDeque::new(),
            last_id: 0,
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next message, whatever it answers.
    pub fn receive(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Send a request and do not wait.
    pub fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.write(format!("{request}\n").as_bytes());
        self.last_id
    }

    /// The answer to request `id`.
    pub fn answer(&mut self, id: i64) -> Value {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let message = self.receive();
            if message["id"].is_null() && message["method"].is_string() {
                self.told.push_back(message);
                continue;
            }
            self.early.insert(message["id"].as_i64().unwrap(), message);
        }
    }

    /// The next notification.
    pub fn notification(&mut self) -> Value {
        self.notification_within(PATIENCE).unwrap()
    }

    /// The next notification, if it comes in time.
    pub fn notification_within(&mut self, limit: Duration) -> Option<Value> {
        loop {
            if let Some(message) = self.told.pop_front() {
                return Some(message);
            }
            let message = self.lines.recv_timeout(limit).ok()?;
            if message["method"].is_string() {
                return Some(message);
            }
            self.early.insert(message["id"].as_i64().unwrap(), message);
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The result of a request that must succeed.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, &params);
        assert!(answer["error"].is_null(), "{method} {params}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// The error of a request that must fail.
    pub fn refusal(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, &params);
        assert!(answer["error"].is_object(), "{method} {params} succeeded: {}", answer["result"]);
        answer["error"].clone()
    }

    /// Standard output of a command that must succeed.
    pub fn run(&mut self, argv: &[&str]) -> String {
        let ran = self.call("command.run", json!({"argv": argv}));
        assert_eq!(ran["exit_status"], 0, "{argv:?}: {ran}");
        ran["stdout"].as_str().unwrap().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn wait(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the agent does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kill it as a crash would, leaving it no time to undo.
    pub fn crash(self) {
        self.signal(Signal::SIGKILL);
        assert_eq!(self.wait().signal(), Some(9));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stdin = None;
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.process.kill();
    }
}

/// A state folder, for this user alone, that goes away with the test.
pub fn state_folder() -> tempfile::TempDir {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("iolab-t-").permissions(private).tempdir().unwrap()
}

/// A namespace's name that no other test uses.
pub fn netns_name(what: &str) -> String {
    format!("iolab-t-{what}-{}", std::process::id())
}

/// The processes whose command line has `mark`.
pub fn processes_with(mark: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let line = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    })
    .collect()
}

/// A duration for `sleep` that marks the processes of one test.
pub fn sleep_mark(number: u32) -> String {
    format!("{}.{number:02}", 7_000_000 + std::process::id())
}

pub fn netns_exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

/// What `ip` prints; it must succeed.
pub fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A namespace that is not the agent's.
pub struct Netns(pub String);

impl Netns {
    pub fn make(what: &str) -> Self {
        let name = netns_name(what);
        ip(&["netns", "add", &name]);
        Self(name)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// Wait until `condition` holds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "this does not happen: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether this test can make namespaces; says why it is skipped where it cannot.
pub fn is_root(test: &str) -> bool {
    let permitted = nix::unistd::Uid::effective().is_root() && has_capabilities();
    if !permitted {
        let _ = writeln!(
            std::io::stderr(),
            "skipped {test}: it makes network namespaces on the host, which needs root with CAP_NET_ADMIN and CAP_SYS_ADMIN"
        );
    }
    permitted
}

/// Whether root has the capabilities that it lacks in a container without privileges (linux/capability.h: 12, 21).
fn has_capabilities() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
    [12, 21].iter().all(|capability| effective >> capability & 1 == 1)
}

/// Copy a program by another process. By this one, what another test starts meanwhile would inherit the descriptor that
/// writes, and a program that somebody has open for writing cannot be started.
pub fn install_program(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap().success());
}

/// The user who is nobody.
pub const NOBODY: u32 = 65_534;

/// An agent of a user who is nobody, if this kernel lets users make namespaces.
pub fn start_as_nobody(folder: &Path, test: &str) -> Option<Agent> {
    if !is_root(test) {
        return None;
    }
    // The build folder may be closed to others.
    let binary = folder.join("iolab-agent");
    install_program(Path::new(BINARY), &binary);
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env", "-u", "IOLAB_STATE_DIR"]);
    command.arg(format!("XDG_RUNTIME_DIR={}", folder.display())).arg(binary);
    let agent = Agent::start_by(&mut command, folder);
    assert_eq!(agent.hello["uid"], NOBODY);
    assert_eq!(agent.hello["state_dir"], folder.join("iolab").to_str().unwrap());
    if agent.hello["rootless"] == false {
        assert!(!agent.hello["capabilities"].as_array().unwrap().contains(&json!("netns")));
        assert!(agent.hello["limits"][0].as_str().unwrap().contains("user namespace"));
        return None;
    }
    Some(agent)
}
