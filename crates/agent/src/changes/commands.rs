//! Verbs `command.run`, `netns.create` and `netns.delete`, which run a program and wait for it to exit.

use std::collections::BTreeMap;
use std::time::Duration;

use iolab_protocol::calls::{CommandRun, NetnsName};
use iolab_protocol::results::{CommandEnded, Done};
use iolab_protocol::{ErrorObject, Undo};

use crate::changes::folders;
use crate::changes::setting;
use crate::changes::undo::remove_netns;
use crate::host::Host;
use crate::kernel::faults::Answer;
use crate::kernel::netns;
use crate::kernel::sync::lock;
use crate::programs::capture::check_capture;
use crate::programs::launch::Place;
use crate::programs::spawn::{check_words, Program};
use crate::verbs::{verb, Verb};

/// Return the verbs for commands and namespaces.
pub fn verbs() -> [Verb; 3] {
    [
        verb("command.run", |host, params| run(host, params)),
        verb("netns.create", |host, params| create_netns(host, &params)),
        verb("netns.delete", |host, params| delete_netns(host, &params)),
    ]
}

/// Answer `command.run`.
pub fn run(host: &Host, params: CommandRun) -> Answer<CommandEnded> {
    check_capture(params.capture_bytes)?;
    let place = Place::of(params.netns)?;
    let change = match (params.undo, params.undo_key) {
        (None, None) => {
            host.check_current()?;
            None
        }
        (Some(undo), Some(undo_key)) => {
            check_words(&params.argv, &params.env)?;
            check_undo(&undo)?;
            let change = host.may_change()?;
            Some((change, host.record(&undo_key, undo)?))
        }
        _ => {
            return Err(ErrorObject::params(
                "'undo' and 'undo_key' are given both or not at all",
                "only one of them",
            ))
        }
    };
    let program = Program {
        argv: params.argv,
        env: params.env,
        place,
        stdin: params.stdin,
        capture_bytes: params.capture_bytes,
        ..Program::default()
    };
    let begun = host.begin(program);
    if let (Err(_), Some((_, sequence))) = (&begun, &change) {
        // The program was never started, so it changed nothing.
        host.mark_undone(*sequence)?;
    }
    let ran = begun?.finish(Duration::from_millis(params.timeout_ms))?;
    Ok(CommandEnded {
        ending: ran.end.ending,
        timed_out: ran.timed_out,
        output: ran.child.output(),
        begin_ns: ran.child.begin_ns,
        end_ns: ran.end.end_ns,
    })
}

/// Refuse an undo action that can never succeed: it would leave the host changed permanently.
fn check_undo(undo: &Undo) -> Answer<()> {
    match undo {
        Undo::Command { argv, .. } => check_words(argv, &BTreeMap::new())?,
        Undo::Write { path, .. } => setting::check_path(path)?,
        Undo::Netns { name } => netns::check_name(name)?,
        Undo::Folder { name } => folders::check_name(name)?,
        Undo::Process { .. } => {}
    }
    undo.inside().map_or(Ok(()), netns::check_name)
}

/// Answer `netns.create`.
pub fn create_netns(host: &Host, params: &NetnsName) -> Answer<Done> {
    let name = params.name.as_str();
    netns::check_name(name)?;
    let _change = host.may_change()?;
    // With two concurrent requests for one name, each would mistake the other's journal entry for its own.
    if netns::exists(name) || !lock(&host.making).insert(name.to_owned()) {
        return Err(exists_already(name));
    }
    let made = make_netns(host, name);
    lock(&host.making).remove(name);
    made.map(|()| Done {})
}

fn make_netns(host: &Host, name: &str) -> Answer<()> {
    let sequence = host.record(&format!("netns:{name}"), Undo::Netns { name: name.to_owned() })?;
    let added = run_ip(host, &["ip", "netns", "add", name], name);
    if added.as_ref().is_err_and(|error| error.message.contains("File exists")) {
        // A different program created the namespace after the check, so the namespace must not be removed.
        host.mark_undone(sequence)?;
        return Err(exists_already(name));
    }
    let made = added.and_then(|()| run_ip(host, &["ip", "-netns", name, "link", "set", "lo", "up"], name));
    if made.is_err() && remove_netns(host, name).is_ok() {
        host.mark_undone(sequence)?;
    }
    made
}

fn exists_already(name: &str) -> ErrorObject {
    let message = format!("making namespace '{name}': it exists already");
    ErrorObject::refused(message, Some(nix::libc::EEXIST), netns::path(name))
}

/// Answer `netns.delete`.
pub fn delete_netns(host: &Host, params: &NetnsName) -> Answer<Done> {
    let name = params.name.as_str();
    netns::check_name(name)?;
    let _change = host.may_change()?;
    if !netns::exists(name) {
        let path = netns::path(name);
        let message = format!("removing namespace '{name}': there is none of that name");
        return Err(ErrorObject::refused(message, Some(nix::libc::ENOENT), path));
    }
    let is_itself = |undo: &Undo| matches!(undo, Undo::Netns { name: each } if each == name);
    if !lock(&host.journal).live().iter().any(|change| is_itself(&change.undo)) {
        let message = format!(
            "removing namespace '{name}': this agent did not make it, and removes only those it made"
        );
        return Err(ErrorObject::unknown(message, name));
    }
    remove_netns(host, name).map_err(|reason| ErrorObject::refused(reason, None, netns::path(name)))?;
    // The changes inside the namespace were removed together with it.
    let moot = |undo: &Undo| undo.inside() == Some(name) || is_itself(undo);
    let changes = lock(&host.journal).live().to_vec();
    for change in changes.iter().filter(|change| moot(&change.undo)) {
        host.mark_undone(change.sequence)?;
    }
    Ok(Done {})
}

/// Bring up the loopback interface in the agent's new network namespace.
pub fn bring_up_loopback(host: &Host) {
    // A failure affects only programs that use the loopback of this namespace, and they report it.
    let _ = run_ip(host, &["ip", "link", "set", "lo", "up"], "");
}

fn run_ip(host: &Host, argv: &[&str], name: &str) -> Answer<()> {
    let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
    let env = [("LC_ALL".to_owned(), "C".to_owned())].into();
    let program = Program { argv: argv.clone(), env, capture_bytes: 4096, ..Program::default() };
    let ran = host.run(program, Duration::from_secs(10))?;
    if ran.end.ending.exit_status == Some(0) {
        return Ok(());
    }
    let message = format!("running '{}': {}", argv.join(" "), ran.child.output_beginning(4096).trim());
    Err(ErrorObject::refused(message, None, netns::path(name)))
}
