//! The real binary as a child of a test, with a separate state folder.

#![allow(dead_code)] // each test file uses only a part of this module

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

/// Timeout of each step: longer than any step of these tests takes, even on a busy machine that stalls for a while.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running agent, which is stopped when the value is dropped.
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

    /// Start the agent with `command`, which executes the agent in its own process.
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

    /// Return the next message, whichever request it belongs to.
    pub fn receive(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Send a request without waiting for the reply.
    pub fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.write(format!("{request}\n").as_bytes());
        self.last_id
    }

    /// Return the reply to request `id`.
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

    /// Return the next notification.
    pub fn notification(&mut self) -> Value {
        self.notification_within(PATIENCE).unwrap()
    }

    /// Return the next notification, if it arrives before the timeout.
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

    /// Send a request that must succeed, and return its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, &params);
        assert!(answer["error"].is_null(), "{method} {params}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Send a request that must fail, and return its error.
    pub fn refusal(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, &params);
        assert!(answer["error"].is_object(), "{method} {params} succeeded: {}", answer["result"]);
        answer["error"].clone()
    }

    /// Run a command that must succeed, and return its standard output.
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

    /// Kill the agent as a crash would, without time to undo its changes.
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

/// Create a state folder that only this user can access and that is removed at the end of the test.
pub fn state_folder() -> tempfile::TempDir {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("iolab-t-").permissions(private).tempdir().unwrap()
}

/// Return a namespace name that no other test uses.
pub fn netns_name(what: &str) -> String {
    format!("iolab-t-{what}-{}", std::process::id())
}

/// Return the processes whose command line contains `mark`.
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

/// Return a duration for `sleep` by which the processes of one test are recognised.
pub fn sleep_mark(number: u32) -> String {
    format!("{}.{number:02}", 7_000_000 + std::process::id())
}

pub fn netns_exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

/// Run `ip`, which must succeed, and return its output.
pub fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A namespace that the agent did not create.
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

/// Wait until `condition` is true.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "this does not happen: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether this test can create namespaces. If it cannot, the function prints why the test is skipped.
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

/// Whether root has the capabilities that an unprivileged container lacks (linux/capability.h: 12, 21).
fn has_capabilities() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
    [12, 21].iter().all(|capability| effective >> capability & 1 == 1)
}

/// Copy a program in a different process. If this process copied the program, a process started meanwhile by another
/// test would inherit the descriptor that is open for writing, and a program that is open for writing cannot be
/// executed.
pub fn install_program(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap().success());
}

/// The user nobody.
pub const NOBODY: u32 = 65_534;

/// Start an agent as the user nobody, if this kernel permits users to create namespaces.
pub fn start_as_nobody(folder: &Path, test: &str) -> Option<Agent> {
    if !is_root(test) {
        return None;
    }
    // The build folder may be inaccessible to other users.
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
