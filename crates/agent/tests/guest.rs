//! Tests of the agent as the first process of a QEMU guest, reached through an agent on the host.
//!
//! `IOLAB_IMAGE=FOLDER cargo test -p iolab-agent --test guest -- --ignored` names the folder of a guest image
//! (`vmlinux`, `initrd`, `root.squashfs`, `modules.squashfs`); the agent in its initrd is replaced with the agent under
//! test.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{eventually, is_root, state_folder, Agent, BINARY, PATIENCE};
use serde_json::{json, Value};

/// A guest, and the agent on its host.
struct Guest {
    host: Agent,
    folder: PathBuf,
    last_id: i64,
    _state: tempfile::TempDir,
}

fn image(test: &str) -> Option<PathBuf> {
    let image = std::env::var_os("IOLAB_IMAGE").map(PathBuf::from);
    if image.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped {test}: IOLAB_IMAGE names no guest image");
    }
    image.filter(|_| is_root(test))
}

/// Return one entry of a cpio archive in the format "newc".
fn archive_entry(name: &str, mode: u32, content: &[u8]) -> Vec<u8> {
    let mut entry = b"070701".to_vec();
    for field in [
        1,
        mode,
        0,
        0,
        1,
        0,
        u32::try_from(content.len()).unwrap(),
        0,
        0,
        0,
        0,
        u32::try_from(name.len()).unwrap() + 1,
        0,
    ] {
        write!(entry, "{field:08x}").unwrap();
    }
    entry.extend_from_slice(name.as_bytes());
    entry.push(0);
    entry.resize(entry.len().next_multiple_of(4), 0);
    entry.extend_from_slice(content);
    entry.resize(entry.len().next_multiple_of(4), 0);
    entry
}

/// Build the image's first stage with the agent under test in place of the original agent.
fn first_stage(image: &Path, folder: &Path) -> PathBuf {
    let stripped = folder.join("stripped");
    let strip = std::process::Command::new("strip").arg("-o").arg(&stripped).arg(BINARY).status();
    let agent =
        fs::read(if strip.is_ok_and(|status| status.success()) { &stripped } else { Path::new(BINARY) })
            .unwrap();
    let mut archive = fs::read(image.join("initrd")).unwrap();
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(archive_entry("init", 0o100_755, &agent));
    archive.extend(archive_entry("TRAILER!!!", 0, b""));
    let path = folder.join("first-stage");
    fs::write(&path, archive).unwrap();
    path
}

impl Guest {
    fn start(image: &Path, arguments: &str, channel: [&str; 2]) -> Self {
        let state = state_folder();
        let mut host = Agent::start(state.path());
        let made = host.call("folder.create", json!({"name": "g"}));
        let folder = PathBuf::from(made["path"].as_str().unwrap());
        let file = |name: &str| image.join(name).to_str().unwrap().to_owned();
        let socket = format!("socket,id=ag,path={}/agent,server=on,wait=off", folder.display());
        let console = format!("file:{}/console", folder.display());
        let append = format!(
            "console=ttyS0 quiet panic=-1 nokaslr mitigations=off cryptomgr.notests no_timer_check net.ifnames=0 iolab.name=dut iolab.modules=/dev/vdb {arguments}"
        );
        let initrd = first_stage(image, &folder);
        let mut argv = ["qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-cpu", "max", "-m", "384"]
            .map(str::to_owned)
            .to_vec();
        argv.extend(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"].map(str::to_owned));
        argv.extend(
            ["-kernel", &file("vmlinux"), "-initrd", initrd.to_str().unwrap(), "-append", &append]
                .map(str::to_owned),
        );
        argv.extend(
            ["-serial", &console, "-chardev", &socket, "-device", "virtio-serial-pci"].map(str::to_owned),
        );
        argv.extend(channel.map(str::to_owned));
        argv.extend(["-netdev", "tap,id=n0,fd=7", "-device", "virtio-net-pci,netdev=n0"].map(str::to_owned));
        for name in ["root.squashfs", "modules.squashfs"] {
            let drive =
                format!("if=none,id={name},format=raw,readonly=on,file.locking=off,file={}", file(name));
            argv.extend(
                ["-drive", &drive, "-device", &format!("virtio-blk-pci,drive={name}")].map(str::to_owned),
            );
        }
        host.call("netns.create", json!({"name": Self::netns(&host)}));
        let tap = json!({"kind": "tap", "netns": Self::netns(&host), "name": "p0", "vnet_header": true});
        host.call("process.start", json!({"id": "guest", "argv": argv, "files": [{"fd": 7, "open": tap}]}));
        Self { host, folder, last_id: 0, _state: state }
    }

    fn netns(host: &Agent) -> String {
        format!("iolab-t-guest-{}", host.pid())
    }

    fn connect(&mut self) {
        let at = json!({"kind": "socket", "path": self.folder.join("agent")});
        self.host.call("relay.open", json!({"id": "guest", "at": at}));
    }

    /// Return the next message of the guest's agent; other messages are skipped.
    fn receive(&mut self) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "the guest is silent: {}", self.console());
            let Some(told) = self.host.notification_within(PATIENCE) else { continue };
            if told["method"] == "relay.received" {
                return told["params"]["message"].clone();
            }
            let ended = told["method"] == "relay.ended" && told["params"]["reason"] != "closed";
            assert!(!ended, "{}", self.console());
        }
    }

    fn hello(&mut self) -> Value {
        loop {
            let message = self.receive();
            if message["method"] == "hello" {
                return message["params"].clone();
            }
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.host.call("relay.send", json!({"id": "guest", "message": message}));
        loop {
            let message = self.receive();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn shell(&mut self, script: &str) -> String {
        let ran = self.call("command.run", json!({"argv": ["sh", "-c", script], "timeout_ms": 120_000}));
        ran["stdout"].as_str().unwrap().trim().to_owned()
    }

    fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("console")).unwrap_or_default()).into_owned()
    }

    /// Wait until QEMU has exited by itself.
    fn has_powered_off(&mut self) {
        let wait = json!({"id": "guest", "timeout_ms": 5000});
        let mut answers = (0..20).map(|_| {
            let id = self.host.send("process.wait", &wait);
            self.host.answer(id)
        });
        let ended = answers.find(|answer| answer["error"]["code"] != -32002).unwrap()["result"].clone();
        assert_eq!(ended["exit_status"], 0, "{ended}");
    }
}

const PORT: [&str; 2] = ["-device", "virtserialport,chardev=ag,name=org.iolab.agent"];

#[test]
#[ignore = "full: boots a guest"]
fn guest_boots_serves_several_sessions_and_powers_off() {
    let Some(image) = image("guest_boots_serves_several_sessions_and_powers_off") else { return };
    let mut guest = Guest::start(&image, "iolab.root=/dev/vda", PORT);
    guest.connect();
    let hello = guest.hello();
    assert_eq!(hello["pid"], 1);
    assert!(hello["capabilities"].as_array().unwrap().contains(&json!("machine")));
    assert_eq!(guest.shell("hostname; cat /proc/1/oom_score_adj /proc/self/oom_score_adj"), "dut\n-1000\n0");
    assert_eq!(guest.shell("cat /sys/class/net/eth0/address /sys/class/net/lo/operstate | wc -l"), "2");
    assert!(guest.shell("ip -brief address show lo").contains("127.0.0.1"));
    assert_eq!(
        guest.shell("ls -d /lib/modules/$(uname -r) && touch /etc/writable && echo yes").lines().last(),
        Some("yes")
    );
    let orphans =
        "for i in 1 2 3; do (sleep 0.1 &); done; sleep 3; grep -l 'State:.Z' /proc/[0-9]*/status | wc -l";
    assert_eq!(guest.shell(orphans), "0");
    assert!(!guest.console().contains("iolab-agent:"), "{}", guest.console());

    // When the host side closes the channel, the agent undoes all changes and greets the next controller.
    guest.call("process.start", json!({"id": "sleeper", "argv": ["sleep", "1000"]}));
    guest.call("netns.create", json!({"name": "inner"}));
    guest.host.call("relay.close", json!({"id": "guest"}));
    std::thread::sleep(Duration::from_secs(2)); // only the guest knows when it has detected this
    guest.connect();
    assert_eq!(guest.hello()["predecessors"], json!([]));
    assert_eq!(guest.shell("ls /run/netns | wc -l; pidof sleep"), "0");

    // If memory is exhausted, the kernel kills the program that uses the most memory and not the agent. The test
    // triggers the OOM killer directly: a guest that really runs out of memory rereads its programs from the disk
    // repeatedly, for minutes if it is emulated.
    let hog = "(dd if=/dev/zero bs=200M count=1 | sleep 1000) & \
               until [ \"$(ps -C dd -o rss=)\" -gt 190000 ]; do sleep 1; done; echo f > /proc/sysrq-trigger; \
               until dmesg | grep -q 'Killed process.*(dd)'; do sleep 1; done; kill $(pidof sleep); echo killed";
    assert_eq!(guest.shell(hog), "killed");
    guest.call("agent.ping", json!({}));

    // The agent starts a new session on request.
    guest.call("netns.create", json!({"name": "inner"}));
    assert_eq!(guest.call("agent.exit", json!({}))["undone"], 1);
    guest.hello();
    guest.call("machine.power_off", json!({}));
    guest.has_powered_off();
}

#[test]
#[ignore = "full: boots a guest"]
fn guest_with_a_terminal_channel_is_reachable_among_kernel_messages() {
    let Some(image) = image("guest_with_a_terminal_channel_is_reachable_among_kernel_messages") else {
        return;
    };
    let arguments = "iolab.root=/dev/vda iolab.channel=/dev/hvc0 console=hvc0";
    let mut guest = Guest::start(&image, arguments, ["-device", "virtconsole,chardev=ag"]);
    guest.connect();
    assert_eq!(guest.hello()["pid"], 1);
    let text = "quotes \" and \\ and \r\n ".repeat(500);
    let ran = guest.call(
        "command.run",
        json!({"argv": ["sh", "-c", "echo words of the kernel > /dev/kmsg; cat"], "stdin": text}),
    );
    assert_eq!(ran["stdout"], text);
    guest.call("agent.exit", json!({}));
    guest.hello();
    guest.call("machine.power_off", json!({}));
    guest.has_powered_off();
}

#[test]
#[ignore = "full: boots a guest"]
fn guest_agent_survives_garbage_from_the_host() {
    let Some(image) = image("guest_agent_survives_garbage_from_the_host") else { return };
    let guest = Guest::start(&image, "iolab.root=/dev/vda", PORT);
    // Send the line directly, because the host's agent sends only JSON objects.
    let path = guest.folder.join("agent");
    eventually("somebody listens", || UnixStream::connect(&path).is_ok());
    let mut raw = UnixStream::connect(&path).unwrap();
    let reader = raw.try_clone().unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(reader)) {
            let Ok(line) = line else { return };
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
            let _ = sender.send(message);
        }
    });
    assert_eq!(lines.recv_timeout(PATIENCE).unwrap()["method"], "hello");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..20 {
        let mut bytes = Vec::new();
        for _ in 0..8192 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes.push(random.to_le_bytes()[0]);
        }
        bytes.extend_from_slice(
            format!("\n{{\"jsonrpc\":\"2.0\",\"id\":{round},\"method\":\"agent.ping\"}}\n").as_bytes(),
        );
        raw.write_all(&bytes).unwrap();
        loop {
            let message = lines.recv_timeout(PATIENCE).unwrap();
            if message["id"] == round {
                assert!(message["result"]["now_ns"].is_u64());
                break;
            }
            assert_eq!(
                (&message["id"], &message["error"]["code"].is_i64()),
                (&Value::Null, &true),
                "{message}"
            );
        }
    }
}

#[test]
#[ignore = "full: boots a guest"]
fn guest_reports_a_missing_root_device_and_powers_off() {
    let Some(image) = image("guest_reports_a_missing_root_device_and_powers_off") else { return };
    let mut guest = Guest::start(&image, "iolab.root=/dev/vdx", PORT);
    guest.has_powered_off();
    let console = guest.console();
    let told =
        console.lines().find(|line| line.starts_with("iolab-agent:")).unwrap_or_else(|| panic!("{console}"));
    assert!(told.contains("/dev/vdx") && told.contains("vda"), "{told}");
}
