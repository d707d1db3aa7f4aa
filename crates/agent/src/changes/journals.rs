//! Verbs `journal.list` and `journal.undo`, for this agent's journal and for the journals of dead agents.

use std::io::ErrorKind;
use std::sync::Mutex;

use iolab_protocol::calls::{JournalList, JournalUndo};
use iolab_protocol::results::{JournalEntries, UndoReport};
use iolab_protocol::ErrorObject;

use crate::changes::undo::undo_changes;
use crate::host::journal::{file_path, Journal};
use crate::host::Host;
use crate::kernel::faults::{refused, Answer};
use crate::kernel::procfs::{kill_remains, Remains};
use crate::kernel::sync::lock;
use crate::verbs::{verb, Verb};

/// Return the verbs for journals.
pub fn verbs() -> [Verb; 2] {
    [
        verb("journal.list", |host, params| list(host, &params)),
        verb("journal.undo", |host, params| undo(host, &params)),
    ]
}

/// Name of this agent's journal in requests.
const OWN: &str = "self";

/// Answer `journal.list`.
pub fn list(host: &Host, params: &JournalList) -> Answer<JournalEntries> {
    if params.journal == OWN {
        return Ok(JournalEntries { entries: lock(&host.journal).live().to_vec() });
    }
    Ok(JournalEntries { entries: open(host, &params.journal)?.live().to_vec() })
}

/// Answer `journal.undo`.
pub fn undo(host: &Host, params: &JournalUndo) -> Answer<UndoReport> {
    let keys = params.keys.as_deref();
    if params.journal == OWN {
        let _change = host.may_undo()?;
        return Ok(undo_changes(host, &host.journal, keys));
    }
    undo_dead(host, &params.journal, keys)
}

/// Undo the changes of a dead agent. The resources of the dead agent are locked during the undo, so that no running
/// agent is affected.
pub fn undo_dead(host: &Host, id: &str, keys: Option<&[String]>) -> Answer<UndoReport> {
    let _change = host.begin_change()?;
    let journal = open(host, id)?;
    let _held = host.borrow(id, journal.holding())?;
    // Before the resources were locked, a different agent may have undone the journal.
    let journal = Mutex::new(open(host, id)?);
    let report = undo_changes(host, &journal, keys);
    if lock(&journal).live().is_empty() {
        kill_remains(Remains { journal: id, group: None, rootless: false });
    }
    let removed = lock(&journal).remove_if_empty();
    removed.map_err(|error| refused("removing the journal", id, &error))?;
    Ok(report)
}

fn open(host: &Host, id: &str) -> Answer<Journal> {
    let unknown = || ErrorObject::unknown(format!("there is no journal '{id}' of a dead agent"), id);
    if !host.predecessors()?.iter().any(|predecessor| predecessor.journal == id) {
        return Err(unknown());
    }
    let path = file_path(&host.state.journals(), id);
    match Journal::open(&path) {
        // A different agent has undone the journal in the meantime.
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown()),
        opened => opened.map_err(|error| refused("opening the journal", id, &error))?.ok_or_else(unknown),
    }
}
