//! The dead-man's switch: kill what runs, undo everything, exit. It happens once, whoever asks first.

use std::sync::Mutex;

use iolab_protocol::results::UndoReport;

use crate::host::Host;
use crate::procfs::{kill_remains, Remains};
use crate::sync::lock;
use crate::undo::undo_changes;

/// Undo everything, tell `report` the outcome, and end the process. A second caller waits for that end.
pub fn end(host: &Host, report: impl FnOnce(&UndoReport)) -> ! {
    let _once = lock(&ENDING);
    host.end_changes();
    host.relays.close_all();
    host.traffic.close_all();
    host.devices.stop_all();
    let outcome = undo_changes(host, &host.journal, None);
    if host.children.any_started() {
        kill_remains(Remains { journal: &host.author.journal(), group: None, rootless: false });
    }
    let removed = lock(&host.journal).remove_if_empty();
    report(&outcome);
    let clean = outcome.failed.is_empty() && removed.is_ok();
    std::process::exit(i32::from(!clean))
}

/// Never given back: the process ends under it.
static ENDING: Mutex<()> = Mutex::new(());
