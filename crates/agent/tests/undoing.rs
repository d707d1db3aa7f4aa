//! Tests of undo requests: the order, the time, and the result if a change cannot be undone.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{
    eventually, is_root, netns_exists, netns_name, processes_with, sleep_mark, state_folder, Agent, Netns,
};
use serde_json::{json, Value};

/// A small file system in memory, removed at the end of the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"];
        assert!(Command::new("mount").args(options).arg(folder.path()).status().unwrap().success());
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A file system on a loop device, removed at the end of the test. While it is frozen, a process that writes to it is
/// in state D.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(test: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let script = "fallocate -l 16M $0/image && mkfs.ext4 -q $0/image && mkdir $0/place && mount -o loop $0/image $0/place";
        if Command::new("sh").args(["-c", script]).arg(folder.path()).status().unwrap().success() {
            return Some(Self(folder));
        }
        let why = "it mounts a file system on a loop device, which this host does not allow";
        let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
        None
    }

    fn place(&self) -> String {
        self.0.path().join("place").to_str().unwrap().to_owned()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").args(["-u", &self.place()]).stderr(Stdio::null()).status();
        let _ = Command::new("umount").arg("-l").arg(self.place()).status();
    }
}

#[test]
fn program_in_state_d_is_skipped_until_its_disk_server_has_ended() {
    let test = "program_in_state_d_is_skipped_until_its_disk_server_has_ended";
    if !is_root(test) {
        return;
    }
    let Some(disk) = Disk::mount(test) else { return };
    let (state, place) = (state_folder(), disk.place());
    let mut agent = Agent::start(state.path());
    // The frozen file system acts like the disk of a daemon that does not respond; the undo of the freeze acts like the
    // end of that daemon.
    let freeze = json!({"argv": ["fsfreeze", "-f", place], "undo_key": "daemon",
        "undo": {"kind": "command", "argv": ["fsfreeze", "-u", place]}});
    assert_eq!(agent.call("command.run", freeze)["exit_status"], 0);
    let mark = sleep_mark(80);
    let script = format!(": {mark}; echo text >{place}/file; exit 1");
    agent.call("process.start", json!({"id": "stuck", "argv": ["sh", "-c", script]}));
    eventually("the program waits for the disk", || {
        processes_with(&mark).iter().any(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
        })
    });
    let report = agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!((&report["failed"], &report["undone"]), (&json!([]), &json!(2)), "{report}");
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
}

#[test]
fn failed_undo_is_retried_once_after_the_others() {
    let (state, folder) = (state_folder(), tempfile::tempdir().unwrap());
    let mut agent = Agent::start(state.path());
    let (flag, log) = (folder.path().join("flag"), folder.path().join("log"));
    let change = |key: &str, script: String| {
        let undo = json!({"kind": "command", "argv": ["sh", "-c", script]});
        json!({"argv": ["true"], "undo_key": key, "undo": undo})
    };
    let count = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    agent.call("command.run", change("daemon", format!("touch {}", flag.display())));
    let tried = format!("echo x >>{}; test -e {}", log.display(), flag.display());
    agent.call("command.run", change("program", tried));
    let report = agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!((&report["failed"], &report["undone"]), (&json!([]), &json!(2)), "{report}");
    assert_eq!(count(), 2, "before the daemon, and after it");
    agent.call("command.run", change("hopeless", format!("echo x >>{}; false", log.display())));
    let report = agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!(report["failed"][0]["undo_key"], "hopeless");
    assert_eq!(count(), 3, "nothing had changed since it failed");
    agent.call("command.run", change("harmless", "true".to_owned()));
    agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!(count(), 5, "something had");
}

#[test]
fn changes_are_undone_even_if_the_journals_disk_is_full() {
    if !is_root("changes_are_undone_even_if_the_journals_disk_is_full") {
        return;
    }
    let disk = SmallDisk::mount();
    let mut agent = Agent::start(disk.0.path());
    let done = tempfile::tempdir().unwrap();
    let change = |number: usize| {
        let undo = json!({"kind": "command", "argv": ["touch", done.path().join(number.to_string())]});
        json!({"argv": ["true"], "undo": undo, "undo_key": format!("change-{number}")})
    };
    for number in 0..50 {
        agent.call("command.run", change(number));
    }
    // Fill the remaining space of the disk.
    let _ = std::fs::write(disk.0.path().join("filler"), vec![1; 1 << 20]);
    let mut number = 50;
    loop {
        let request = agent.send("command.run", &change(number));
        if !agent.answer(request)["error"].is_null() {
            break;
        }
        number += 1;
        assert!(number < 500, "the journal never runs out of room");
    }
    let report = agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!(report["failed"], json!([]), "{report}");
    assert_eq!(std::fs::read_dir(done.path()).unwrap().count(), number);
    assert_eq!(report["undone"], number);
}

#[test]
fn failed_undo_stays_in_the_journal_and_in_the_exit_status() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    if agent.hello["rootless"] == true {
        return;
    }
    let flag = state.path().join("flag");
    let undo = json!({"kind": "command", "argv": ["test", "-e", flag]});
    agent.call("command.run", json!({"argv": ["true"], "undo": undo, "undo_key": "flag"}));
    let failed = agent.call("agent.exit", json!({}));
    assert_eq!(failed["undone"], 0);
    assert_eq!(failed["failed"][0]["undo_key"], "flag");
    assert_eq!(agent.wait().code(), Some(1));

    let mut next = Agent::start(state.path());
    let journal = next.hello["predecessors"][0]["journal"].clone();
    assert_eq!(next.call("journal.undo", json!({"journal": journal}))["undone"], 0);
    std::fs::write(&flag, "").unwrap();
    assert_eq!(next.call("journal.undo", json!({"journal": journal}))["undone"], 1);
}

#[test]
fn undo_runs_in_reverse_order_from_the_requested_entry() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let log = state.path().join("log");
    for word in ["one", "two", "three"] {
        let argv = ["sh", "-c", &format!("echo {word} >> {}", log.display())];
        let undo = json!({"kind": "command", "argv": argv});
        agent.call("command.run", json!({"argv": ["true"], "undo": undo, "undo_key": word}));
    }
    let keys = |agent: &mut Agent| -> Vec<Value> {
        let listed = agent.call("journal.list", json!({"journal": "self"}));
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["undo_key"].clone()).collect()
    };
    agent.call("journal.undo", json!({"journal": "self", "keys": ["two", "unknown"]}));
    assert_eq!(keys(&mut agent), ["one", "three"]);
    agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "two\nthree\none\n");
}

#[test]
fn undo_waits_for_changes_in_progress() {
    if !is_root("undo_waits_for_changes_in_progress") {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let slow =
        ["sh", "-c", "sleep 0.3; echo late > \"$0\"", &state.path().join("made").display().to_string()];
    let undo = json!({"kind": "command", "argv": ["rm", state.path().join("made")]});
    let names: Vec<String> = (0..6).map(|number| netns_name(&format!("flight{number}"))).collect();
    for _ in 0..5 {
        let mut ids: Vec<i64> =
            names.iter().map(|name| agent.send("netns.create", &json!({"name": name}))).collect();
        ids.push(agent.send("command.run", &json!({"argv": slow, "undo": undo, "undo_key": "slow"})));
        // The command is in the journal and has not created its file.
        eventually("the journal begins", || {
            std::fs::read_dir(state.path().join("journal"))
                .unwrap()
                .flatten()
                .any(|file| std::fs::read_to_string(file.path()).unwrap_or_default().contains("slow"))
        });
        ids.push(agent.send("journal.undo", &json!({"journal": "self"})));
        for id in ids {
            assert_eq!(agent.answer(id)["error"], Value::Null);
        }
        // Changes made after the undo began are still in the journal.
        let listed = agent.call("journal.list", json!({"journal": "self"}))["entries"].to_string();
        for name in names.iter().filter(|name| netns_exists(name)) {
            assert!(listed.contains(name.as_str()), "'{name}' is left and not in the journal");
        }
        agent.call("journal.undo", json!({"journal": "self"}));
        assert!(!names.iter().any(|name| netns_exists(name)));
        assert!(!state.path().join("made").exists());
    }
}

#[test]
fn change_that_was_never_started_leaves_no_undo() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let undo = json!({"kind": "command", "argv": ["iolab-no-such-program"]});
    let argv = ["iolab-no-such-program"];
    let refusal = agent.refusal("command.run", json!({"argv": argv, "undo": undo, "undo_key": "x"}));
    assert_eq!(refusal["code"], -32001);
    assert_eq!(agent.call("agent.exit", json!({})), json!({"undone": 0, "failed": []}));
}

#[test]
fn undo_of_a_change_that_did_not_happen_is_harmless() {
    if !is_root("undo_of_a_change_that_did_not_happen_is_harmless") {
        return;
    }
    let (state, inside) = (state_folder(), Netns::make("harmless"));
    let mut agent = Agent::start(state.path());
    for (key, argv) in [
        ("device", vec!["ip", "link", "delete", "absent0"]),
        ("qdisc", vec!["tc", "qdisc", "delete", "dev", "lo", "root"]),
        ("class", vec!["tc", "class", "delete", "dev", "lo", "classid", "1:1"]),
        ("filter", vec!["tc", "filter", "delete", "dev", "lo", "parent", "1:", "pref", "1", "u32"]),
        ("address", vec!["ip", "address", "delete", "198.18.0.1/24", "dev", "lo"]),
        ("route", vec!["ip", "route", "delete", "198.18.0.0/15"]),
        ("offload", vec!["ethtool", "--offload", "absent0", "tso", "on"]),
        ("elsewhere", vec!["ip", "-netns", "iolab-t-absent", "link", "delete", "x"]),
    ] {
        let undo = json!({"kind": "command", "argv": argv, "netns": inside.0});
        agent.call("command.run", json!({"argv": ["false"], "undo": undo, "undo_key": key}));
    }
    let undo = json!({"kind": "command", "argv": ["false"], "netns": "iolab-t-absent"});
    agent.call("command.run", json!({"argv": ["false"], "undo": undo, "undo_key": "netns"}));
    assert_eq!(agent.call("agent.exit", json!({})), json!({"undone": 9, "failed": []}));
}

#[test]
fn first_original_of_a_setting_is_restored() {
    if !is_root("first_original_of_a_setting_is_restored") {
        return;
    }
    let (state, inside) = (state_folder(), Netns::make("setting"));
    let mut agent = Agent::start(state.path());
    let path = "/proc/sys/net/ipv4/tcp_rmem";
    let original = agent.call("setting.read", json!({"path": path, "netns": inside.0}))["value"].clone();
    for value in ["4096\t65536\t131072", "4096\t65536\t262144"] {
        let written = agent.call("setting.write", json!({"path": path, "netns": inside.0, "value": value}));
        assert_eq!(written["original"], original);
        assert_eq!(agent.call("setting.read", json!({"path": path, "netns": inside.0}))["value"], value);
    }
    let refusal =
        agent.refusal("setting.write", json!({"path": path, "netns": inside.0, "value": "nonsense"}));
    assert_eq!((&refusal["code"], &refusal["data"]["errno"]), (&json!(-32001), &json!(22)));
    agent.call("journal.undo", json!({"journal": "self"}));
    assert_eq!(agent.call("setting.read", json!({"path": path, "netns": inside.0}))["value"], original);
}
