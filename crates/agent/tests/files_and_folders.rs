//! Files passed to programs, and scratch folders, with the real binary.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;

use common::{eventually, is_root, netns_name, start_as_nobody, state_folder, Agent};
use serde_json::{json, Value};

fn tap(fd: i32, netns: &str, name: &str, multi_queue: bool) -> Value {
    json!({"fd": fd, "open": {"kind": "tap", "netns": netns, "name": name, "vnet_header": true, "multi_queue": multi_queue}})
}

/// Return the output of program `id` after the program has ended.
fn told(agent: &mut Agent, id: &str) -> String {
    let ended = agent.call("process.wait", json!({"id": id}));
    assert_eq!(ended["exit_status"], 0, "{ended}");
    ended["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn tap_interface_belongs_to_a_program_and_is_removed_with_the_program() {
    if !is_root("tap_interface_belongs_to_a_program_and_is_removed_with_the_program") {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let netns = netns_name("tap");
    agent.call("netns.create", json!({"name": netns}));
    let script = "grep iff: /proc/self/fdinfo/3 /proc/self/fdinfo/4; ls /proc/self/fd | wc -l; echo ready; exec sleep 60";
    let files = json!([tap(4, &netns, "p0", true), tap(3, &netns, "p0", true)]);
    let ready = json!({"kind": "output", "contains": "ready"});
    let argv = json!(["sh", "-c", script]);
    agent.call("process.start", json!({"id": "p", "argv": argv, "files": files, "ready": ready}));
    let links = agent.run(&["ip", "-netns", &netns, "-details", "link", "show", "p0"]);
    assert!(links.contains("multi_queue") && links.contains("vnet_hdr"), "{links}");
    let single = json!([tap(3, &netns, "p0", false)]);
    let taken = agent.refusal("process.start", json!({"id": "q", "argv": ["true"], "files": single}));
    assert_eq!((&taken["code"], &taken["data"]["path"]), (&json!(-32001), &json!("p0")));
    let stopped = agent.call("process.stop", json!({"id": "p", "signal": "KILL"}));
    let lines: Vec<&str> = stopped["stdout"].as_str().unwrap().lines().collect();
    assert!(lines[0].ends_with("iff:\tp0") && lines[1].ends_with("iff:\tp0"), "{lines:?}");
    let without: usize = agent.run(&["sh", "-c", "ls /proc/self/fd | wc -l"]).trim().parse().unwrap();
    assert_eq!(lines[2], (without + 2).to_string());
    let gone = |agent: &mut Agent| {
        agent.call("command.run", json!({"argv": ["ip", "-netns", netns, "link", "show", "p0"]}))
    };
    assert_eq!(gone(&mut agent)["exit_status"], 1);
}

#[test]
fn passed_devices_get_their_numbers_whatever_descriptors_the_agent_uses() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let numbers: Vec<i32> = (3..40).chain([511]).collect();
    let device = |number: &i32| if number % 2 == 0 { "/dev/null" } else { "/dev/zero" };
    let files: Vec<Value> = numbers
        .iter()
        .rev()
        .map(|number| json!({"fd": number, "open": {"kind": "device", "path": device(number)}}))
        .collect();
    let script = "for fd in /proc/self/fd/*; do echo ${fd##*/} $(readlink /proc/$$/fd/${fd##*/}); done";
    agent.call("process.start", json!({"id": "p", "argv": ["sh", "-c", script], "files": files}));
    let text = told(&mut agent, "p");
    for number in &numbers {
        assert!(text.contains(&format!("\n{number} {}\n", device(number))), "{number} in {text}");
    }
}

#[test]
fn unsuitable_files_are_refused_before_a_program_starts() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let device = |fd: i32, path: &str| json!({"fd": fd, "open": {"kind": "device", "path": path}});
    let link = state.path().join("link");
    symlink("/etc/hostname", &link).unwrap();
    let mut refusal = |files: Value| {
        let error = agent.refusal("process.start", json!({"id": "p", "argv": ["true"], "files": files}));
        (error["code"].as_i64().unwrap(), error["data"]["errno"].as_i64())
    };
    assert_eq!(refusal(json!([device(2, "/dev/null")])), (-32602, None));
    assert_eq!(refusal(json!([device(512, "/dev/null")])), (-32602, None));
    assert_eq!(refusal(json!([device(3, "/dev/null"), device(3, "/dev/zero")])), (-32602, None));
    assert_eq!(refusal(json!([device(3, "/etc/hostname")])), (-32602, None));
    assert_eq!(refusal(json!([device(3, "/dev/../etc/hostname")])), (-32001, Some(19)));
    assert_eq!(refusal(json!([device(3, "/dev/absent")])), (-32001, Some(2)));
    assert_eq!(refusal(json!([tap(3, "iolab-t-absent", "p0", false)])), (-32001, Some(2)));
    assert_eq!(refusal(json!([tap(3, "x", "a/b", false)])), (-32602, None));
    assert_eq!(
        refusal(json!([{"fd": 3, "open": {"kind": "macvtap", "interface": "lo"}}])),
        (-32001, Some(19))
    );
    assert_eq!(
        refusal(json!([{"fd": 3, "open": {"kind": "macvtap", "interface": "absent"}}])),
        (-32001, Some(2))
    );
    agent.call("process.start", json!({"id": "p", "argv": ["true"]}));
}

#[test]
fn macvtap_is_selected_by_namespace_even_with_equal_interface_numbers() {
    if !is_root("macvtap_is_selected_by_namespace_even_with_equal_interface_numbers") {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let namespaces = [netns_name("mt-a"), netns_name("mt-b")];
    for netns in &namespaces {
        agent.call("netns.create", json!({"name": netns}));
        agent.run(&["ip", "-netns", netns, "link", "add", "m0", "type", "veth", "peer", "name", "m1"]);
        let add = [
            "ip", "-netns", netns, "link", "add", "link", "m0", "mt0", "index", "7001", "type", "macvtap",
            "mode", "bridge",
        ];
        let argv = json!({"argv": add});
        let added = agent.call("command.run", argv);
        if added["exit_status"] != 0 {
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), b"skipped: this kernel has no macvtap\n");
            return;
        }
    }
    for (number, netns) in namespaces.iter().enumerate() {
        let files = json!([{"fd": 3, "open": {"kind": "macvtap", "netns": netns, "interface": "mt0"}}]);
        let argv = json!(["stat", "-L", "-c", "%t:%T", "/proc/self/fd/3"]);
        let id = format!("p{number}");
        agent.call("process.start", json!({"id": id, "argv": argv, "files": files}));
        let seen = told(&mut agent, &id);
        let (major, minor) = seen.trim().split_once(':').unwrap();
        let number = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let script = "cat /sys/class/net/mt0/macvtap/tap*/dev";
        let own = agent.run(&["ip", "netns", "exec", netns, "sh", "-c", script]);
        assert_eq!(format!("{}:{}", number(major), number(minor)), own.trim());
    }
    let left = fs::read_dir("/dev")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("iolab-{}-", agent.pid())));
    assert_eq!(left.count(), 0);
}

#[test]
fn folder_is_private_and_removed_with_the_agent() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let made = agent.call("folder.create", json!({"name": "dut"}));
    let path = Path::new(made["path"].as_str().unwrap()).to_owned();
    assert_eq!(path, state.path().join("f/dut"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    fs::create_dir(path.join("inner")).unwrap();
    fs::write(path.join("inner/file"), "x").unwrap();
    let outside = state.path().join("outside");
    fs::write(&outside, "stays").unwrap();
    symlink(&outside, path.join("link")).unwrap();
    symlink(state.path(), path.join("inner/up")).unwrap();
    assert_eq!(agent.refusal("folder.create", json!({"name": "dut"}))["data"]["errno"], 17);
    agent.close_stdin();
    assert!(agent.wait().success());
    assert!(!path.exists() && outside.exists());
}

#[test]
fn deleted_folder_can_be_created_again_and_foreign_folders_are_not_deleted() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    for _ in 0..2 {
        agent.call("folder.create", json!({"name": "dut"}));
        agent.call("folder.delete", json!({"name": "dut"}));
    }
    assert_eq!(agent.refusal("folder.delete", json!({"name": "dut"}))["code"], -32004);
    assert_eq!(agent.call("journal.list", json!({"journal": "self"}))["entries"], json!([]));
    fs::create_dir(state.path().join("f/foreign")).unwrap();
    assert_eq!(agent.refusal("folder.delete", json!({"name": "foreign"}))["code"], -32004);
    for name in ["", ".", "..", "../x", "a/b", "-x", &"x".repeat(41)] {
        assert_eq!(agent.refusal("folder.create", json!({"name": name}))["code"], -32602, "{name}");
    }
    agent.call("folder.create", json!({"name": "x".repeat(40)}));
    assert!(state.path().join("f/foreign").exists());
}

#[test]
fn folders_of_a_dead_agent_are_undone_by_the_next_agent() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    agent.call("folder.create", json!({"name": "dut"}));
    fs::write(state.path().join("f/dut/socket"), "").unwrap();
    agent.crash();
    let mut next = Agent::start(state.path());
    let journal = next.hello["predecessors"][0]["journal"].clone();
    assert_eq!(next.refusal("folder.create", json!({"name": "other"}))["code"], -32003);
    assert_eq!(next.call("journal.undo", json!({"journal": journal}))["undone"], 1);
    assert!(!state.path().join("f/dut").exists());
    next.call("folder.create", json!({"name": "dut"}));
}

#[test]
fn undo_with_a_foreign_folder_is_refused() {
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let outside = state.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["../outside", "..", outside.to_str().unwrap()] {
        let run = json!({"argv": ["true"], "undo": {"kind": "folder", "name": name}, "undo_key": "k"});
        assert_eq!(agent.refusal("command.run", run)["code"], -32602);
    }
    agent.close_stdin();
    agent.wait();
    assert!(outside.exists());
}

#[test]
fn programs_of_a_rootless_agent_access_their_folder_and_taps() {
    let folder = state_folder();
    let Some(mut agent) =
        start_as_nobody(folder.path(), "programs_of_a_rootless_agent_access_their_folder_and_taps")
    else {
        return;
    };
    let made = agent.call("folder.create", json!({"name": "dut"}));
    let path = made["path"].as_str().unwrap().to_owned();
    agent.run(&["touch", &format!("{path}/file")]);
    if Path::new("/dev/net/tun").exists() {
        let files = json!([{"fd": 3, "open": {"kind": "tap", "name": "p0"}}]);
        agent.call("process.start", json!({"id": "p", "argv": ["sleep", "60"], "files": files}));
        agent.run(&["ip", "link", "show", "p0"]);
    }
    agent.call("folder.delete", json!({"name": "dut"}));
    assert_eq!(agent.call("command.run", json!({"argv": ["ls", path]}))["exit_status"], 2);
    let pid = agent.pid();
    drop(agent);
    eventually("the agent has gone", || !Path::new(&format!("/proc/{pid}")).exists());
}

/// Check a program with a dedicated user, a file in a closed folder, a hidden file and a device.
#[test]
fn program_under_a_dedicated_user_sees_only_the_files_it_was_given() {
    if !is_root("program_under_a_dedicated_user_sees_only_the_files_it_was_given") {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let folder = agent.call("folder.create", json!({"name": "own"}))["path"].as_str().unwrap().to_owned();
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["kernel", "volume", "secret"] {
        fs::write(closed.path().join(name), name).unwrap();
        fs::set_permissions(closed.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(closed.path().join("kernel"), fs::Permissions::from_mode(0o600)).unwrap();
    let path = |name: &str| closed.path().join(name).to_string_lossy().into_owned();
    let socket = format!("{folder}/made-before");
    fs::write(&socket, "").unwrap();
    let script = "id -u; cd \"$0\"; cat \"$1\"; echo +more >>\"$2\"; ls \"$2\" \"${1%/*}/secret\" 2>/dev/null; (echo x >\"$1\") 2>&1; \
                  (cat /etc/shadow) 2>&1; echo made >socket; echo more >made-before; stat -c %a,%u \"$3\"; grep -E 'CapEff|CapPrm|NoNew|Groups' /proc/self/status";
    let argv = json!(["sh", "-c", script, folder, path("kernel"), path("volume"), "/dev/full"]);
    let user = json!({"reads": [path("kernel")], "writes": [folder, socket, path("volume"), "/dev/full"]});
    agent.call("process.start", json!({"id": "p", "argv": argv, "own_user": user}));
    let ended = agent.call("process.wait", json!({"id": "p"}));
    let said = ended["stdout"].as_str().unwrap();
    let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
    let uid: u32 = lines[0].parse().unwrap();
    assert!((61_184..=65_519).contains(&uid), "{said}");
    assert_eq!(lines[1], format!("kernel{}", path("volume")), "{ended}");
    assert!(lines[2].contains("cannot create") && lines[3].contains("Permission denied"), "{said}");
    assert_eq!(lines[4], format!("600,{uid}"));
    assert_eq!(
        lines[5..],
        ["Groups:", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"]
    );
    assert_eq!(fs::read_to_string(&socket).unwrap(), "more\n");
    assert_eq!(fs::read_to_string(path("volume")).unwrap(), "volume+more\n");
    assert_eq!(fs::metadata("/dev/full").unwrap().permissions().mode() & 0o777, 0o666);
    assert_eq!(fs::read_dir(closed.path()).unwrap().count(), 3);
    agent.call("folder.delete", json!({"name": "own"}));
    assert!(!Path::new(&folder).exists());
}

#[test]
fn program_under_a_dedicated_user_dies_with_the_agent() {
    if !is_root("program_under_a_dedicated_user_dies_with_the_agent") {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let started = agent.call("process.start", json!({"id": "p", "argv": ["sleep", "3600"], "own_user": {}}));
    let pid = started["pid"].as_i64().unwrap();
    agent.crash();
    eventually("the program is gone", || !Path::new(&format!("/proc/{pid}")).exists());
}
