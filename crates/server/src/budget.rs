//! How many bytes the bodies of all requests in flight may have together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

/// The beginning of a body, which has room of its own: requests of usual size go on when large ones have taken the rest.
const BEGINNING: usize = 64 << 10;
/// The part of the whole that is for beginnings.
const FOR_BEGINNINGS: usize = 4;

/// The whole.
#[derive(Debug)]
pub(crate) struct Budget {
    beginnings: Pool,
    rest: Pool,
    total: usize,
}

#[derive(Debug)]
struct Pool {
    free: AtomicUsize,
}

impl Pool {
    fn take(&self, bytes: usize) -> bool {
        let less = |free: usize| free.checked_sub(bytes);
        self.free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Ordering::AcqRel);
    }
}

impl Budget {
    pub(crate) fn new(total: usize) -> Self {
        let beginnings = total / FOR_BEGINNINGS;
        let pool = |bytes: usize| Pool {
            free: AtomicUsize::new(bytes),
        };
        Self {
            beginnings: pool(beginnings),
            rest: pool(total - beginnings),
            total,
        }
    }

    /// All of it.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// The largest body that there is room for when there is no other.
    pub(crate) fn largest(&self) -> usize {
        let beginnings = self.total / FOR_BEGINNINGS;
        beginnings.min(BEGINNING) + (self.total - beginnings)
    }
}

/// What one request has of it, until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Share(Arc<Held>);

#[derive(Debug)]
struct Held {
    budget: Arc<Budget>,
    bytes: Mutex<usize>,
}

impl Share {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self(Arc::new(Held {
            budget: Arc::clone(budget),
            bytes: Mutex::new(0),
        }))
    }

    /// Takes room for more; false where there is none.
    pub(crate) fn grow(&self, more: usize) -> bool {
        let mut bytes = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = &self.0.budget;
        let wanted = *bytes + more;
        let beginning = wanted.min(BEGINNING) - (*bytes).min(BEGINNING);
        if !budget.beginnings.take(beginning) {
            return false;
        }
        if !budget.rest.take(more - beginning) {
            budget.beginnings.give_back(beginning);
            return false;
        }
        *bytes = wanted;
        true
    }

    /// Gives back everything.
    pub(crate) fn clear(&self) {
        let mut bytes = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let held = std::mem::take(&mut *bytes);
        let beginning = held.min(BEGINNING);
        self.0.budget.beginnings.give_back(beginning);
        self.0.budget.rest.give_back(held - beginning);
    }

    /// The budget that it is of.
    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = std::mem::take(self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner));
        let beginning = held.min(BEGINNING);
        self.budget.beginnings.give_back(beginning);
        self.budget.rest.give_back(held - beginning);
    }
}

/// Gives a request its share, until its answer begins: by then its text is tokens.
pub(crate) async fn share(
    State(budget): State<Arc<Budget>>,
    mut request: Request,
    next: Next,
) -> Response {
    let share = Share::new(&budget);
    request.extensions_mut().insert(share.clone());
    let response = next.run(request).await;
    share.clear();
    response
}
