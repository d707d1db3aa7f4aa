//! The dead-man's switch: kill what runs, undo everything, exit. It happens once, whoever asks first.

use std::sync::{Arc, Mutex};

use iolab_protocol::calls::Nothing;
use iolab_protocol::results::UndoReport;
use iolab_protocol::ErrorObject;

use crate::changes::undo::undo_changes;
use crate::host::Host;
use crate::init;
use crate::kernel::procfs::{kill_remains, Remains};
use crate::kernel::sync::lock;
use crate::measuring::traffic;
use crate::session::relays;
use crate::verbs::{replying, Reply, Verb};

/// The methods of the end.
pub fn verbs() -> [Verb; 2] {
    [
        replying("machine.power_off", power_off),
        replying("agent.exit", |host, _: Nothing, reply| end(host, |report| reply.give_last(host, report))),
    ]
}

/// Undo everything, tell `report` the outcome, and end the process. A machine's first process begins a new session instead. A
/// second caller waits for that end.
pub fn end(host: &Host, report: impl FnOnce(&UndoReport)) -> ! {
    let clean = end_work(host, report);
    if host.is_init {
        init::begin_again();
    }
    std::process::exit(i32::from(!clean))
}

fn power_off(host: &Arc<Host>, _: Nothing, reply: Reply<UndoReport>) {
    if !host.is_init {
        let message = "powering off: this agent is not its machine's first process";
        return reply.give(host, Err(ErrorObject::refused(message, Some(nix::libc::EPERM), "")));
    }
    end_machine(host, |report| reply.give_last(host, report))
}

/// Undo everything, tell `report` the outcome, and switch the machine off.
fn end_machine(host: &Host, report: impl FnOnce(&UndoReport)) -> ! {
    end_work(host, report);
    init::power_off()
}

/// Whether all is undone. Nobody comes here again: the process must end.
fn end_work(host: &Host, report: impl FnOnce(&UndoReport)) -> bool {
    // Never given back: the process ends under it.
    std::mem::forget(lock(&ENDING));
    host.end_changes();
    relays::close_all(host);
    traffic::close_all(host);
    drop(host.devices.take_all());
    drop(host.watches.take_all());
    drop(host.captures.take_all());
    drop(host.wires.take_all());
    let outcome = undo_changes(host, &host.journal, None);
    if host.children.any_started() {
        kill_remains(Remains { journal: &host.author.journal(), group: None, rootless: false });
    }
    let removed = lock(&host.journal).remove_if_empty();
    report(&outcome);
    for failure in &outcome.failed {
        // Whoever asked may be gone; the log is read by who comes to collect the process.
        crate::log(&format!("not undone: {}: {}", failure.entry.undo_key, failure.reason));
    }
    outcome.failed.is_empty() && removed.is_ok()
}

static ENDING: Mutex<()> = Mutex::new(());
