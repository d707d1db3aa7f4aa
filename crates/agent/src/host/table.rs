//! Tables of the objects that the controller has opened, one for each kind, with the IDs that the controller chose. An
//! ID is reserved while its object is being created.

use std::collections::HashMap;
use std::sync::Mutex;

use iolab_protocol::{ErrorCode, ErrorData, ErrorObject};

use crate::kernel::faults::Answer;
use crate::kernel::sync::lock;

/// Objects of one kind.
pub struct Table<T> {
    kind: Kind,
    /// Objects by ID; `None` while an object is being created.
    entries: Mutex<HashMap<String, Option<T>>>,
}

/// Names and error messages of a table.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Noun for one object in error messages.
    pub name: &'static str,
    /// Error message for an ID that is in use, with a remedy.
    pub taken: &'static str,
    /// Maximum number of objects, and the error message when it is reached.
    pub most: Option<(usize, &'static str)>,
}

impl<T> Table<T> {
    /// Create an empty table.
    pub fn new(kind: Kind) -> Self {
        Self { kind, entries: Mutex::default() }
    }

    /// Reserve the ID `id` for an object that is about to be created.
    pub fn reserve(&self, id: &str) -> Answer<Reserved<'_, T>> {
        let mut entries = lock(&self.entries);
        if entries.contains_key(id) {
            return Err(ErrorObject::params(self.kind.taken, id));
        }
        if let Some((most, full)) = self.kind.most.filter(|&(most, _)| entries.len() >= most) {
            let data = ErrorData { limit: Some(most as u64), ..ErrorData::default() };
            return Err(ErrorObject::new(ErrorCode::Busy, format!("{most} {full}")).with(data));
        }
        entries.insert(id.to_owned(), None);
        Ok(Reserved { table: self, id: id.to_owned(), thing: None })
    }

    /// Return the number of objects, including those being created.
    pub fn len(&self) -> usize {
        lock(&self.entries).len()
    }

    /// Read an object while the table is locked.
    pub fn with<R>(&self, id: &str, look: impl FnOnce(&T) -> R) -> Answer<R> {
        let entries = lock(&self.entries);
        entries.get(id).and_then(Option::as_ref).map(look).ok_or_else(|| self.unknown(id))
    }

    /// Modify an object while the table is locked.
    pub fn with_mut<R>(&self, id: &str, work: impl FnOnce(&mut T) -> R) -> Answer<R> {
        let mut entries = lock(&self.entries);
        entries.get_mut(id).and_then(Option::as_mut).map(work).ok_or_else(|| self.unknown(id))
    }

    /// Remove an object and return it.
    pub fn take(&self, id: &str) -> Answer<T> {
        self.take_if(id, |_| true)
    }

    /// Remove an object and return it, if `is_it` returns true for it.
    pub fn take_if(&self, id: &str, is_it: impl FnOnce(&T) -> bool) -> Answer<T> {
        let mut entries = lock(&self.entries);
        let found = entries.get(id).and_then(Option::as_ref).is_some_and(is_it);
        found.then(|| entries.remove(id).flatten()).flatten().ok_or_else(|| self.unknown(id))
    }

    /// Remove an object, and call `tell` before its ID can be reused.
    pub fn take_and_tell(&self, id: &str, tell: impl FnOnce()) {
        let mut entries = lock(&self.entries);
        entries.remove(id);
        tell();
    }

    /// Remove all objects and return them.
    pub fn take_all(&self) -> Vec<T> {
        lock(&self.entries).drain().filter_map(|(_, thing)| thing).collect()
    }

    /// Return the results of `look` for all objects.
    pub fn each<R>(&self, mut look: impl FnMut(&str, &T) -> Option<R>) -> Vec<R> {
        lock(&self.entries).iter().filter_map(|(id, thing)| look(id, thing.as_ref()?)).collect()
    }

    fn unknown(&self, id: &str) -> ErrorObject {
        ErrorObject::unknown(format!("there is no {} '{id}'", self.kind.name), id)
    }
}

impl<T: Clone> Table<T> {
    /// Return a copy of an object.
    pub fn find(&self, id: &str) -> Answer<T> {
        self.with(id, T::clone)
    }
}

/// A reserved ID, which is freed unless an object is stored under it.
#[must_use]
pub struct Reserved<'a, T> {
    table: &'a Table<T>,
    id: String,
    thing: Option<T>,
}

impl<T> Reserved<'_, T> {
    /// Store the created object under the ID.
    pub fn fill(mut self, thing: T) {
        self.thing = Some(thing);
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        let mut entries = lock(&self.table.entries);
        match self.thing.take() {
            Some(thing) => entries.insert(std::mem::take(&mut self.id), Some(thing)),
            None => entries.remove(&self.id),
        };
    }
}

/// Supervised processes.
pub const PROCESSES: Kind = Kind {
    name: "process",
    taken: "a process of that id runs or was not collected; wait for it or stop it",
    most: None,
};
/// Series of readings.
pub const SERIES: Kind = Kind {
    name: "series",
    taken: "a series of that name is being read; stop it first",
    most: Some((64, "series are being read already")),
};
/// Sets of ports.
pub const PORTS: Kind =
    Kind { name: "set of ports", taken: "a set of that id is open; close it first", most: None };
/// Devices under test.
pub const DEVICES: Kind =
    Kind { name: "device", taken: "a device of that id is in place; stop it first", most: None };
/// Emulated links between interfaces.
pub const WIRES: Kind =
    Kind { name: "wire", taken: "a wire of that id is in place; stop it first", most: None };
/// Watches of passing frames.
pub const WATCHES: Kind =
    Kind { name: "watch", taken: "a watch of that id is there; close it first", most: None };
/// Packet captures.
pub const CAPTURES: Kind =
    Kind { name: "capture", taken: "a capture of that id is there; close it first", most: None };
/// Connections to other agents.
pub const RELAYS: Kind = Kind {
    name: "relay",
    taken: "a relay of that id is open; close it first",
    most: Some((256, "relays are open already")),
};

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { name: "thing", taken: "close it first", most: Some((2, "are open")) };

    #[test]
    fn name_is_unique_and_free_again_after_a_dropped_reservation() {
        let table = Table::new(KIND);
        let reserved = table.reserve("a").unwrap();
        assert_eq!(table.reserve("a").err().unwrap().message, "close it first");
        assert!(table.find("a").is_err() && table.take("a").is_err());
        drop(reserved);
        table.reserve("a").unwrap().fill(1);
        assert_eq!(table.find("a").unwrap(), 1);
        assert!(table.reserve("a").is_err());
        assert_eq!(table.take("a").unwrap(), 1);
        assert_eq!(table.find("a").unwrap_err().message, "there is no thing 'a'");
    }

    #[test]
    fn table_limit_includes_reservations() {
        let table = Table::new(KIND);
        let _made = table.reserve("a").unwrap();
        table.reserve("b").unwrap().fill(2);
        assert_eq!(table.reserve("c").err().unwrap().message, "2 are open");
        assert_eq!(table.each(|id, &thing| Some((id.to_owned(), thing))), [("b".to_owned(), 2)]);
        assert!(table.take_if("b", |&thing| thing == 3).is_err());
        assert_eq!(table.take_all(), [2]);
    }
}
