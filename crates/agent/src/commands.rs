//! Answer `command.run`, `netns.create` and `netns.delete`: programs that run to their end.

use std::collections::BTreeMap;
use std::time::Duration;

use iolab_protocol::calls::{CommandRun, NetnsName};
use iolab_protocol::results::{CommandEnded, Done};
use iolab_protocol::{ErrorObject, Undo};

use crate::capture::CAPTURE_LIMIT_BYTES;
use crate::faults::Answer;
use crate::host::Host;
use crate::launch::Place;
use crate::netns;
use crate::setting;
use crate::spawn::{check_words, Program};
use crate::sync::lock;
use crate::undo::remove_netns;

/// Answer `command.run`.
pub fn run(host: &Host, params: CommandRun) -> Answer<CommandEnded> {
    check_capture(params.capture_bytes)?;
    let place = place(params.netns)?;
    let change = match (params.undo, params.undo_key) {
        (None, None) => None,
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
    let ran = host.run(program, Duration::from_millis(params.timeout_ms));
    if let (Err(_), Some((_, sequence))) = (&ran, &change) {
        // It was never started, so it changed nothing.
        host.mark_undone(*sequence)?;
    }
    let ran = ran?;
    Ok(CommandEnded {
        ending: ran.end.ending,
        timed_out: ran.timed_out,
        output: ran.child.output(),
        begin_ns: ran.child.begin_ns,
        end_ns: ran.end.end_ns,
    })
}

/// Refuse an undo that could never be done: it would leave the host dirty for good.
fn check_undo(undo: &Undo) -> Answer<()> {
    match undo {
        Undo::Command { argv, .. } => check_words(argv, &BTreeMap::new())?,
        Undo::Write { path, .. } => setting::check_path(path)?,
        Undo::Netns { name } => netns::check_name(name)?,
        Undo::Process { .. } => {}
    }
    undo.inside().map_or(Ok(()), netns::check_name)
}

/// Where a program runs, by the namespace's name.
pub fn place(netns: Option<String>) -> Answer<Place> {
    let Some(name) = netns else { return Ok(Place::Here) };
    netns::check_name(&name)?;
    Ok(Place::Named(name))
}

/// Refuse captures whose text would not fit into a reply.
pub fn check_capture(capture_bytes: usize) -> Answer<()> {
    if capture_bytes <= CAPTURE_LIMIT_BYTES {
        return Ok(());
    }
    Err(ErrorObject::params(format!("'capture_bytes' is at most {CAPTURE_LIMIT_BYTES}"), capture_bytes))
}

/// Answer `netns.create`.
pub fn create_netns(host: &Host, params: &NetnsName) -> Answer<Done> {
    let name = params.name.as_str();
    netns::check_name(name)?;
    let _change = host.may_change()?;
    if netns::exists(name) {
        let exists = Some(nix::libc::EEXIST);
        return Err(ErrorObject::refused(
            format!("making namespace '{name}': it exists already"),
            exists,
            netns::path(name),
        ));
    }
    let sequence = host.record(&format!("netns:{name}"), Undo::Netns { name: name.to_owned() })?;
    let made = run_ip(host, &["ip", "netns", "add", name], name)
        .and_then(|()| run_ip(host, &["ip", "-netns", name, "link", "set", "lo", "up"], name));
    if made.is_err() && remove_netns(host, name).is_ok() {
        host.mark_undone(sequence)?;
    }
    made.map(|()| Done {})
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
    remove_netns(host, name).map_err(|reason| ErrorObject::refused(reason, None, netns::path(name)))?;
    // What was changed inside has gone with it.
    let moot = |undo: &Undo| {
        undo.inside() == Some(name) || matches!(undo, Undo::Netns { name: each } if each == name)
    };
    let changes = lock(&host.journal).live().to_vec();
    for change in changes.iter().filter(|change| moot(&change.undo)) {
        host.mark_undone(change.sequence)?;
    }
    Ok(Done {})
}

/// In the agent's own new namespace the loopback is down.
pub fn bring_up_loopback(host: &Host) {
    // Without it only programs that talk to themselves in that namespace fail, and they say so.
    let _ = run_ip(host, &["ip", "link", "set", "lo", "up"], "");
}

fn run_ip(host: &Host, argv: &[&str], name: &str) -> Answer<()> {
    let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
    let program = Program { argv: argv.clone(), capture_bytes: 4096, ..Program::default() };
    let ran = host.run(program, Duration::from_secs(10))?;
    if ran.end.ending.exit_status == Some(0) {
        return Ok(());
    }
    let message = format!("running '{}': {}", argv.join(" "), ran.child.output_beginning(4096).trim());
    Err(ErrorObject::refused(message, None, netns::path(name)))
}
