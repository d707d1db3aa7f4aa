//! Shutdown, on request or because the controller has disconnected (dead-man's switch): kill the running programs, undo
//! all changes, exit. Shutdown happens once, even with several callers.

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

/// Return the verbs for shutdown.
pub fn verbs() -> [Verb; 2] {
    [
        replying("machine.power_off", power_off),
        replying("agent.exit", |host, _: Nothing, reply| end(host, |report| reply.give_last(host, report))),
    ]
}

/// Undo all changes, pass the result to `report`, and exit. The first process of a machine starts a new
/// session instead. A second caller waits for the exit.
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

/// Undo all changes, pass the result to `report`, and power the machine off.
fn end_machine(host: &Host, report: impl FnOnce(&UndoReport)) -> ! {
    end_work(host, report);
    init::power_off()
}

/// Shut down, and return whether all changes were undone. The caller must exit the process, because further
/// calls block.
fn end_work(host: &Host, report: impl FnOnce(&UndoReport)) -> bool {
    // The lock is never released, because the process exits while it holds the lock.
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
        // The requester may have disconnected; the log remains for the parent process.
        crate::log(&format!("not undone: {}: {}", failure.entry.undo_key, failure.reason));
    }
    outcome.failed.is_empty() && removed.is_ok()
}

static ENDING: Mutex<()> = Mutex::new(());
