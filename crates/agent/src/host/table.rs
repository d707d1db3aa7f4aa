//! What the controller has open here, by the names it gave: a table for each kind. A name is kept while its thing is being made.

use std::collections::HashMap;
use std::sync::Mutex;

use iolab_protocol::{ErrorCode, ErrorData, ErrorObject};

use crate::kernel::faults::Answer;
use crate::kernel::sync::lock;

/// Things of one kind.
pub struct Table<T> {
    kind: Kind,
    /// None while it is being made.
    entries: Mutex<HashMap<String, Option<T>>>,
}

/// The words of a table's refusals.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// One of them.
    pub name: &'static str,
    /// Why a name is not given twice, and what to do.
    pub taken: &'static str,
    /// How many there may be, and what is said of so many.
    pub most: Option<(usize, &'static str)>,
}

impl<T> Table<T> {
    /// A table with nothing in it.
    pub fn new(kind: Kind) -> Self {
        Self { kind, entries: Mutex::default() }
    }

    /// Keep the name `id` for what is about to be made.
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

    /// How many there are, those included that are being made.
    pub fn len(&self) -> usize {
        lock(&self.entries).len()
    }

    /// Look at one, which stays meanwhile.
    pub fn with<R>(&self, id: &str, look: impl FnOnce(&T) -> R) -> Answer<R> {
        let entries = lock(&self.entries);
        entries.get(id).and_then(Option::as_ref).map(look).ok_or_else(|| self.unknown(id))
    }

    /// Work with one, which stays meanwhile.
    pub fn with_mut<R>(&self, id: &str, work: impl FnOnce(&mut T) -> R) -> Answer<R> {
        let mut entries = lock(&self.entries);
        entries.get_mut(id).and_then(Option::as_mut).map(work).ok_or_else(|| self.unknown(id))
    }

    /// Take one out.
    pub fn take(&self, id: &str) -> Answer<T> {
        self.take_if(id, |_| true)
    }

    /// Take one out if it is what `is_it` says.
    pub fn take_if(&self, id: &str, is_it: impl FnOnce(&T) -> bool) -> Answer<T> {
        let mut entries = lock(&self.entries);
        let found = entries.get(id).and_then(Option::as_ref).is_some_and(is_it);
        found.then(|| entries.remove(id).flatten()).flatten().ok_or_else(|| self.unknown(id))
    }

    /// Take one out and `tell` of it before its name can be given again.
    pub fn take_and_tell(&self, id: &str, tell: impl FnOnce()) {
        let mut entries = lock(&self.entries);
        entries.remove(id);
        tell();
    }

    /// Take all out.
    pub fn take_all(&self) -> Vec<T> {
        lock(&self.entries).drain().filter_map(|(_, thing)| thing).collect()
    }

    /// What `look` makes of each.
    pub fn each<R>(&self, mut look: impl FnMut(&str, &T) -> Option<R>) -> Vec<R> {
        lock(&self.entries).iter().filter_map(|(id, thing)| look(id, thing.as_ref()?)).collect()
    }

    fn unknown(&self, id: &str) -> ErrorObject {
        ErrorObject::unknown(format!("there is no {} '{id}'", self.kind.name), id)
    }
}

impl<T: Clone> Table<T> {
    /// One of them.
    pub fn find(&self, id: &str) -> Answer<T> {
        self.with(id, T::clone)
    }
}

/// A name that is kept; free again when nothing was put there.
#[must_use]
pub struct Reserved<'a, T> {
    table: &'a Table<T>,
    id: String,
    thing: Option<T>,
}

impl<T> Reserved<'_, T> {
    /// Put what was made under the name.
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

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { name: "thing", taken: "close it first", most: Some((2, "are open")) };

    #[test]
    fn a_name_is_given_once_and_is_free_again_when_nothing_came_of_it() {
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
    fn there_are_no_more_than_may_be_counting_those_that_are_being_made() {
        let table = Table::new(KIND);
        let _made = table.reserve("a").unwrap();
        table.reserve("b").unwrap().fill(2);
        assert_eq!(table.reserve("c").err().unwrap().message, "2 are open");
        assert_eq!(table.each(|id, &thing| Some((id.to_owned(), thing))), [("b".to_owned(), 2)]);
        assert!(table.take_if("b", |&thing| thing == 3).is_err());
        assert_eq!(table.take_all(), [2]);
    }
}
