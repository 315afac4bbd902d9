use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The sequences that run, by the names of their requests, so that they can be ended from outside.
#[derive(Default)]
pub(crate) struct Running {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// The sequences of every name that is taken.
    names: HashMap<Arc<str>, BTreeSet<u64>>,
    sequences: BTreeMap<u64, Entry>,
}

/// How a sequence is ended.
struct Entry {
    /// Tells whoever answers the client.
    abort: Arc<Notify>,
    /// Tells the engine, which must not wait for a client that does not read.
    cancel: Box<dyn Fn() + Send>,
}

impl Entry {
    fn end(&self) {
        // In this order: a stream that ends is found to have been aborted.
        self.abort.notify_one();
        (self.cancel)();
    }
}

/// A name that a running request has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken(pub(crate) Arc<str>);

impl Running {
    /// Takes names until the claim is dropped: all of them, or none.
    pub(crate) fn claim(&self, names: Vec<Arc<str>>) -> Result<Claim, Taken> {
        let mut table = lock(&self.table);
        let mut claim = Claim {
            names: Vec::with_capacity(names.len()),
            table: Arc::clone(&self.table),
        };
        for name in names {
            if table.names.contains_key(&name) {
                // What is claimed already is given back, for which the table must be free.
                drop(table);
                return Err(Taken(name));
            }
            table.names.insert(Arc::clone(&name), BTreeSet::new());
            claim.names.push(name);
        }
        Ok(claim)
    }

    /// Lists a sequence under claimed names, its own first, until the ticket is dropped; `cancel` ends it.
    pub(crate) fn enter(&self, names: Vec<Arc<str>>, cancel: impl Fn() + Send + 'static) -> Ticket {
        let mut table = lock(&self.table);
        table.next += 1;
        let number = table.next;
        for name in &names {
            if let Some(sequences) = table.names.get_mut(name) {
                sequences.insert(number);
            }
        }
        let abort = Arc::new(Notify::new());
        let entry = Entry {
            abort: Arc::clone(&abort),
            cancel: Box::new(cancel),
        };
        table.sequences.insert(number, entry);
        Ticket {
            number,
            names,
            abort,
            table: Arc::clone(&self.table),
        }
    }

    /// Ends the sequences of exactly this name; returns how many.
    pub(crate) fn abort(&self, name: &str) -> usize {
        let table = lock(&self.table);
        let numbers = table.names.get(name).into_iter().flatten();
        let entries = numbers.filter_map(|number| table.sequences.get(number));
        entries.map(Entry::end).count()
    }

    /// Ends all sequences; returns how many.
    pub(crate) fn abort_all(&self) -> usize {
        let table = lock(&self.table);
        table.sequences.values().map(Entry::end).count()
    }

    /// How many are listed.
    pub(crate) fn count(&self) -> usize {
        lock(&self.table).sequences.len()
    }
}

/// Names that no other request may have until this is dropped.
pub(crate) struct Claim {
    names: Vec<Arc<str>>,
    table: Arc<Mutex<Table>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        for name in &self.names {
            table.names.remove(name);
        }
    }
}

/// A sequence's place in the list.
pub(crate) struct Ticket {
    number: u64,
    names: Vec<Arc<str>>,
    abort: Arc<Notify>,
    table: Arc<Mutex<Table>>,
}

impl Ticket {
    /// The sequence's own name.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// Resolves when somebody wants the sequence to end.
    pub(crate) async fn aborted(&self) {
        self.abort.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        table.sequences.remove(&self.number);
        for name in &self.names {
            if let Some(sequences) = table.names.get_mut(name) {
                sequences.remove(&self.number);
            }
        }
    }
}

/// The table is whole between any two operations, so a panic elsewhere does not spoil it.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().copied().map(Arc::from).collect()
    }

    #[tokio::test]
    async fn a_name_ends_the_sequences_that_have_it_and_none_that_begin_with_it() {
        let running = Running::default();
        let (cancelled, told) = channel();
        let taken = ["a", "ab", "b", "b_0", "b_1"];
        let claim = running.claim(names(&taken)).unwrap();
        let tickets = [&["a"][..], &["ab"], &["b_0", "b"], &["b_1", "b"]].map(|own| {
            let cancelled = cancelled.clone();
            let name = own[0];
            running.enter(names(own), move || {
                cancelled.send(name).expect("it is read");
            })
        });
        assert_eq!(running.abort("a"), 1);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["a"]);
        tickets[0].aborted().await;
        assert_eq!(running.abort("b"), 2);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["b_0", "b_1"]);
        assert_eq!(running.abort("b_1"), 1);
        for nobody in ["", "c", "b_", "abc"] {
            assert_eq!(running.abort(nobody), 0, "{nobody:?}");
        }
        assert_eq!((running.abort_all(), running.count()), (4, 4));
        drop(tickets);
        assert_eq!((running.abort_all(), running.count()), (0, 0));
        drop(claim);
        assert!(lock(&running.table).names.is_empty());
    }

    #[test]
    fn names_are_claimed_together_and_given_back() {
        let running = Running::default();
        let claim = running.claim(names(&["a", "b"])).unwrap();
        let taken = running.claim(names(&["c", "b"])).err();
        assert_eq!(taken, Some(Taken("b".into())));
        let own = running.claim(names(&["c", "d", "c"])).err();
        assert_eq!(own, Some(Taken("c".into())));
        assert!(running.claim(names(&["c", "d"])).is_ok());
        drop(claim);
        assert!(running.claim(names(&["b", "a"])).is_ok());
    }
}
