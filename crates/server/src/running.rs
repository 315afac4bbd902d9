use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The sequences that run, by the name of their request, so that they can be ended from outside.
#[derive(Default)]
pub(crate) struct Running {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// Names need not be unique, so a number tells equal ones apart.
    entries: BTreeMap<(String, u64), Entry>,
}

/// How a sequence is ended.
struct Entry {
    /// Tells whoever answers the client.
    abort: Arc<Notify>,
    /// Tells the engine, which must not wait for a client that does not read.
    cancel: Box<dyn Fn() + Send>,
}

impl Running {
    /// Lists a sequence until the ticket is dropped; `cancel` ends it.
    pub(crate) fn enter(&self, name: &str, cancel: impl Fn() + Send + 'static) -> Ticket {
        let mut table = lock(&self.table);
        table.next += 1;
        let key = (name.to_owned(), table.next);
        let abort = Arc::new(Notify::new());
        let entry = Entry {
            abort: Arc::clone(&abort),
            cancel: Box::new(cancel),
        };
        table.entries.insert(key.clone(), entry);
        Ticket {
            key,
            abort,
            table: Arc::clone(&self.table),
        }
    }

    /// Ends all sequences whose name begins with `prefix`; returns how many.
    pub(crate) fn abort(&self, prefix: &str) -> usize {
        let table = lock(&self.table);
        let from = (prefix.to_owned(), 0);
        let matching = table.entries.range(from..);
        matching
            .take_while(|((name, _), _)| name.starts_with(prefix))
            .map(|(_, entry)| {
                // In this order: a stream that ends is found to have been aborted.
                entry.abort.notify_one();
                (entry.cancel)();
            })
            .count()
    }

    /// How many are listed.
    pub(crate) fn count(&self) -> usize {
        lock(&self.table).entries.len()
    }
}

/// A sequence's place in the list.
pub(crate) struct Ticket {
    key: (String, u64),
    abort: Arc<Notify>,
    table: Arc<Mutex<Table>>,
}

impl Ticket {
    /// The name of the request.
    pub(crate) fn name(&self) -> &str {
        &self.key.0
    }

    /// Resolves when somebody wants the sequence to end.
    pub(crate) async fn aborted(&self) {
        self.abort.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.table).entries.remove(&self.key);
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

    #[tokio::test]
    async fn a_prefix_ends_every_sequence_that_begins_with_it() {
        let running = Running::default();
        let (cancelled, names) = channel();
        let tickets = ["a", "ab", "ab", "b"].map(|name| {
            let cancelled = cancelled.clone();
            running.enter(name, move || cancelled.send(name).expect("it is read"))
        });
        assert_eq!(running.abort("ab"), 2);
        assert_eq!(names.try_iter().collect::<Vec<_>>(), ["ab", "ab"]);
        tickets[1].aborted().await;
        tickets[2].aborted().await;
        assert_eq!(running.abort("c"), 0);
        assert_eq!(running.abort(""), 4);
        tickets[0].aborted().await;
        assert_eq!(running.count(), 4);
        drop(tickets);
        assert_eq!(running.count(), 0);
        assert_eq!(running.abort(""), 0);
    }
}
