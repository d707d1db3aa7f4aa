//! Tests with a shell that a confined program can access only the objects that it was given.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use common::{eventually, is_root, processes_with, sleep_mark, start_as_nobody, state_folder, Agent, BINARY};
use serde_json::{json, Value};

/// Script of shell builtins that prints a line for each action that succeeds. The confined shell can start no other
/// program.
const TRIES: &str = r#"
for file in "$1" /etc/shadow /etc/hostname /root /home /run/netns /bin/sh /usr/bin/env /sys/class/net /dev/loop0 /dev/sda; do
    [ -e "$file" ] && echo "sees $file"
done
for file in "$1" "$1.new" /x /etc/passwd /program/sh /proc/sys/kernel/core_pattern /sys/block; do
    (echo touched >> "$file") 2>/dev/null && echo "writes $file"
done
("$2") 2>/dev/null && echo "starts $2"
(/proc/self/exe -c true) 2>/dev/null && echo "starts itself again"
for process in /proc/[0-9]*; do number=$((number + 1)); done
[ "$number" -le 3 ] || echo "sees $number processes"
while read -r name rest; do
    case $name in CapPrm:|CapEff:|CapBnd:|CapAmb:) [ "$rest" = 0000000000000000 ] || echo "has $name $rest" ;; esac
    case $name in NoNewPrivs:) [ "$rest" = 1 ] || echo "may gain privileges" ;; esac
    case $name in Uid:) set -- "$1" "$2" "$3" $rest; echo "user $4" ;; esac
done < /proc/self/status
echo kept > "$3/file" && read -r text < "$3/file" && echo "own folder: $text"
echo kept > /tmp/file && echo "own /tmp"
[ -c /dev/null ] && echo all > /dev/null && echo "null"
[ -z "$SECRET" ] || echo "knows $SECRET"
echo end
"#;

/// Run a script in a shell that is confined to `folder`.
fn confined(agent: &mut Agent, script: &str, words: &[&str], folder: &Path) -> Value {
    let argv = [&["sh", "-c", script, "sh"], words].concat();
    let confined = json!({"folders": [folder]});
    agent.call("process.start", json!({"id": "p", "argv": argv, "confined": confined}));
    agent.call("process.wait", json!({"id": "p"}))
}

struct Canary {
    folder: tempfile::TempDir,
    file: String,
    program: String,
    own: std::path::PathBuf,
}

/// Create a file and a program outside the confinement, which every user may write and execute, and a folder for the
/// confined program.
fn canary() -> Canary {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (file, program) = (folder.path().join("canary"), folder.path().join("program"));
    fs::write(&file, "alive").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    fs::write(&program, format!("#!/bin/sh\necho dead > {}\n", file.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    Canary { file: text(&file), program: text(&program), own, folder }
}

impl Canary {
    fn is_untouched(&self) -> bool {
        let mut names: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        fs::read_to_string(&self.file).unwrap() == "alive" && names == ["canary", "own", "program"]
    }
}

#[test]
fn confined_program_reaches_only_its_folder() {
    if !is_root("confined_program_reaches_only_its_folder") {
        return;
    }
    let (state, canary) = (state_folder(), canary());
    let mut agent = Agent::start_by(Command::new(BINARY).env("SECRET", "the agent's"), state.path());
    let words = [canary.file.as_str(), &canary.program, canary.own.to_str().unwrap()];
    let ended = confined(&mut agent, TRIES, &words, &canary.own);
    assert_eq!(ended["stdout"], "user 65520\nown folder: kept\nown /tmp\nnull\nend\n", "{ended}");
    assert!(canary.is_untouched());
    assert_eq!(fs::metadata(canary.own.join("file")).unwrap().uid(), 65_520);
}

/// Return the reply to `process.start` for a confined shell, and the facts that the shell reads about itself.
fn walls_and_status(agent: &mut Agent, folder: &Path) -> (Value, String) {
    let script = r#"while read -r name rest; do case $name in Seccomp:|Uid:) echo "$name $rest" ;; esac; done </proc/self/status"#;
    let params = json!({"id": "p", "argv": ["sh", "-c", script], "confined": {"folders": [folder]}});
    let started = agent.call("process.start", params);
    let ended = agent.call("process.wait", json!({"id": "p"}));
    (started["walls"].clone(), ended["stdout"].as_str().unwrap().to_owned())
}

#[test]
fn answer_lists_the_optional_confinement_of_a_program() {
    if !is_root("answer_lists_the_optional_confinement_of_a_program") {
        return;
    }
    let (state, canary) = (state_folder(), canary());
    let mut agent = Agent::start(state.path());
    let (walls, read) = walls_and_status(&mut agent, &canary.own);
    let filter = if walls["seccomp"] == true { "2" } else { "0" };
    assert_eq!(walls["user"], 65_520);
    assert_eq!(read, format!("Uid: 65520\t65520\t65520\t65520\nSeccomp: {filter}\n"));
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if !modules.is_empty() {
        assert_eq!(walls["landlock_abi"].is_u64(), modules.split(',').any(|name| name == "landlock"));
    }
    let plain = agent.call("process.start", json!({"id": "q", "argv": ["true"]}));
    assert!(plain["walls"].is_null(), "{plain}");
}

#[test]
fn rootless_confined_program_has_the_same_confinement_except_for_its_user() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let test = "rootless_confined_program_has_the_same_confinement_except_for_its_user";
    let Some(mut agent) = start_as_nobody(folder.path(), test) else { return };
    let canary = canary();
    let words = [canary.file.as_str(), &canary.program, canary.own.to_str().unwrap()];
    let ended = confined(&mut agent, TRIES, &words, &canary.own);
    let said = ended["stdout"].as_str().unwrap();
    assert_eq!(said, "user 0\nown folder: kept\nown /tmp\nnull\nend\n", "{ended}");
    assert!(canary.is_untouched());
}

#[test]
fn child_processes_of_a_confined_program_end_with_it() {
    if !is_root("child_processes_of_a_confined_program_end_with_it") {
        return;
    }
    let (state, canary) = (state_folder(), canary());
    let mut agent = Agent::start(state.path());
    let mark = sleep_mark(70);
    let script = ": $1; (exec >/dev/null 2>&1; while :; do :; done) & echo begun";
    let ended = confined(&mut agent, script, &[&mark], &canary.own);
    assert_eq!((&ended["stdout"], &ended["exit_status"]), (&json!("begun\n"), &json!(0)));
    eventually("the loop has ended", || processes_with(&mark).is_empty());
}

#[test]
fn confined_program_ends_when_its_agent_is_killed() {
    if !is_root("confined_program_ends_when_its_agent_is_killed") {
        return;
    }
    let (state, canary) = (state_folder(), canary());
    let mut agent = Agent::start(state.path());
    let mark = sleep_mark(71);
    let script = ": $1; echo begun; while :; do :; done";
    let argv = ["sh", "-c", script, "sh", &mark];
    agent.call(
        "process.start",
        json!({"id": "p", "argv": argv, "confined": {"folders": [canary.own]},
               "ready": {"kind": "output", "contains": "begun"}}),
    );
    assert!(!processes_with(&mark).is_empty());
    agent.crash();
    eventually("the program has ended", || processes_with(&mark).is_empty());
}

#[test]
fn programs_started_after_a_confined_program_are_in_the_pid_namespace_of_the_host() {
    if !is_root("programs_started_after_a_confined_program_are_in_the_pid_namespace_of_the_host") {
        return;
    }
    let (state, canary) = (state_folder(), canary());
    let mut agent = Agent::start(state.path());
    confined(&mut agent, "exit 0", &[], &canary.own);
    assert_ne!(agent.run(&["sh", "-c", "echo $$"]), "1\n");
}

#[test]
fn program_is_not_started_if_its_confinement_is_impossible() {
    if !is_root("program_is_not_started_if_its_confinement_is_impossible") {
        return;
    }
    let (state, canary) = (state_folder(), canary());
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", BINARY]);
    let mut agent = Agent::start_by(&mut command, state.path());
    let start = json!({"id": "p", "argv": ["sh", "-c", "echo begun"], "confined": {"folders": [canary.own]}});
    let refusal = agent.refusal("process.start", start);
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("process namespace of its own (unshare(CLONE_NEWPID))"), "{message}");
    assert!(message.contains("operation not permitted"), "{message}");
}

#[test]
fn file_that_is_not_a_block_device_is_refused_for_confinement() {
    if !is_root("file_that_is_not_a_block_device_is_refused_for_confinement") {
        return;
    }
    let state = state_folder();
    let mut agent = Agent::start(state.path());
    let start = |confined: Value| json!({"id": "p", "argv": ["sh", "-c", "exit 0"], "confined": confined});
    let refusal = agent.refusal("process.start", start(json!({"devices": ["/dev/mem"]})));
    assert_eq!(refusal["data"]["path"], "/dev/mem", "{refusal}");
    let refusal = agent.refusal("process.start", start(json!({"folders": ["/nowhere"]})));
    assert_eq!(refusal["data"]["path"], "/nowhere", "{refusal}");
    let both = json!({"id": "p", "argv": ["sh"], "netns": "iolab-x", "confined": {}});
    assert_eq!(agent.refusal("process.start", both)["code"], -32602);
}
