//! A thread pool: fork-join over cores without a lock.
//!
//! Workers spin briefly, then park; the caller takes part. A worker that the system has taken off its core before it
//! joined an op costs nothing: tasks are claimed one by one, and an op closes as soon as the workers that joined are done.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an idle worker keeps its core before it parks.
const SPIN: Duration = Duration::from_micros(100);
/// Polls between two looks at the clock.
const POLLS: usize = 64;
/// Polls of a caller before it lets others have its core.
const PATIENCE: usize = 4096;

/// Set in the state while tasks may be claimed.
const OPEN: u64 = 1 << 31;
/// Workers inside the op.
const MEMBERS: u64 = OPEN - 1;

/// Called with the thread (0 is the caller) and the number of the task.
type Task<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// One cache line, so that neighbours do not slow each other.
#[repr(align(128))]
struct Line<T>(T);

/// What workers and caller share.
struct Shared {
    /// Number of the op (upper half), whether it is open, and how many workers are inside.
    state: Line<AtomicU64>,
    /// The next task to claim.
    next: Line<AtomicUsize>,
    /// The op: written while closed and empty, read by members only.
    job: UnsafeCell<(Task<'static>, usize)>,
    parked: Vec<Line<AtomicBool>>,
    quit: AtomicBool,
    panicked: AtomicBool,
}

// SAFETY: `job` is written by the caller while no worker is a member, and read by members only.
unsafe impl Sync for Shared {}
// SAFETY: the task behind `job` is Sync and outlives every member.
unsafe impl Send for Shared {}

/// A caller and its workers.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// One op at a time: only one thread may hold a pool.
    one_caller: PhantomData<Cell<()>>,
}

impl ThreadPool {
    /// A pool of `threads`, the caller included.
    pub(crate) fn new(threads: usize) -> Self {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            state: Line(AtomicU64::new(0)),
            next: Line(AtomicUsize::new(0)),
            job: UnsafeCell::new((&|_, _| (), 0)),
            parked: (0..workers).map(|_| Line(AtomicBool::new(false))).collect(),
            quit: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
        });
        let spawn = |index| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("cpu-{}", index + 1))
                .spawn(move || work(&shared, index))
                .expect("a thread can be started when the process starts")
        };
        let workers = (0..workers).map(spawn).collect();
        Self {
            shared,
            workers,
            one_caller: PhantomData,
        }
    }

    /// Threads, the caller included.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once for every number below `tasks`, on any free thread; returns when all are done.
    pub(crate) fn run(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        self.run_on(tasks, |_, index| task(index));
    }

    /// As [`Self::run`], passing each task its thread's number: no two tasks are on one thread at a time.
    pub(crate) fn run_on(&self, tasks: usize, task: impl Fn(usize, usize) + Sync) {
        if tasks <= 1 || self.workers.is_empty() {
            (0..tasks).for_each(|index| task(0, index));
            return;
        }
        let shared = &*self.shared;
        let task: Task<'_> = &task;
        // SAFETY: only the lifetime changes; `Closing` below outlasts every use of the reference.
        let task: Task<'static> = unsafe { std::mem::transmute(task) };
        // SAFETY: the op is closed and has no members, so the cell is not read.
        unsafe { *shared.job.get() = (task, tasks) };
        shared.next.0.store(0, Ordering::Relaxed);
        let number = (shared.state.0.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        shared.state.0.store(number << 32 | OPEN, Ordering::SeqCst);
        for (worker, parked) in self.workers.iter().zip(&shared.parked) {
            if parked.0.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        {
            let _closing = Closing(shared);
            claim(shared, 0, task, tasks);
        }
        if shared.panicked.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("a task of the pool panicked"));
        }
    }

    /// Splits `0..items` into ranges of about `grain` items (a few per thread at least) and runs them.
    pub(crate) fn split(
        &self,
        items: usize,
        grain: usize,
        task: impl Fn(std::ops::Range<usize>) + Sync,
    ) {
        let fair = items.div_ceil(self.threads() * 4);
        let grain = grain.max(1).max(fair);
        self.run(items.div_ceil(grain), |index| {
            task(index * grain..((index + 1) * grain).min(items));
        });
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches panics of tasks, so it ends in order.
            let _ = worker.join();
        }
    }
}

/// Closes the op and waits for its members, also when the caller's own task panics.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let state = &self.0.state.0;
        let mut polls = 0;
        let mut now = state.fetch_and(!OPEN, Ordering::AcqRel);
        while now & MEMBERS != 0 {
            polls += 1;
            if polls < PATIENCE {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            now = state.load(Ordering::Acquire);
        }
    }
}

fn claim(shared: &Shared, thread: usize, task: Task<'_>, tasks: usize) {
    loop {
        let index = shared.next.0.fetch_add(1, Ordering::Relaxed);
        if index >= tasks {
            return;
        }
        task(thread, index);
    }
}

fn work(shared: &Shared, index: usize) {
    let mut served = 0;
    while let Some(state) = wait(shared, index, served) {
        let joined =
            shared
                .state
                .0
                .compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed);
        if joined.is_err() {
            continue;
        }
        served = state >> 32;
        // SAFETY: a member, so the caller waits for us before it changes the cell or ends the borrow.
        let (task, tasks) = unsafe { *shared.job.get() };
        if catch_unwind(AssertUnwindSafe(|| claim(shared, index + 1, task, tasks))).is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.state.0.fetch_sub(1, Ordering::Release);
    }
}

/// The state of the next open op, or nothing when the pool ends.
fn wait(shared: &Shared, index: usize, served: u64) -> Option<u64> {
    let fresh = |ordering| {
        let state = shared.state.0.load(ordering);
        (state & OPEN != 0 && state >> 32 != served).then_some(state)
    };
    loop {
        let start = Instant::now();
        while start.elapsed() < SPIN {
            for _ in 0..POLLS {
                if let Some(state) = fresh(Ordering::Acquire) {
                    return Some(state);
                }
                std::hint::spin_loop();
            }
        }
        let parked = &shared.parked[index].0;
        parked.store(true, Ordering::SeqCst);
        // Looks again after the flag is up: either the caller sees the flag, or we see the op.
        if fresh(Ordering::SeqCst).is_none() && !shared.quit.load(Ordering::SeqCst) {
            // Whatever woke us may be over by now, but where one op was more will come: spin again.
            std::thread::park();
        }
        parked.store(false, Ordering::Relaxed);
        if shared.quit.load(Ordering::SeqCst) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_exactly_once_for_any_number_of_threads() {
        for threads in 1..=5 {
            let pool = ThreadPool::new(threads);
            for tasks in [0, 1, 2, 7, 64] {
                for _ in 0..50 {
                    let counts: Vec<AtomicUsize> =
                        (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(tasks, |index| {
                        counts[index].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn a_pool_wakes_up_after_it_parked() {
        let pool = ThreadPool::new(3);
        while pool
            .shared
            .parked
            .iter()
            .any(|p| !p.0.load(Ordering::SeqCst))
        {
            std::thread::yield_now();
        }
        let sum = AtomicUsize::new(0);
        pool.run(100, |index| {
            sum.fetch_add(index, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4950);
    }

    #[test]
    fn a_panic_of_a_task_reaches_the_caller_and_leaves_the_pool_usable() {
        let pool = ThreadPool::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, |index| assert!(index != 5, "five"));
        }));
        assert!(outcome.is_err());
        let count = AtomicUsize::new(0);
        pool.run(8, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 8);
    }

    #[test]
    fn ranges_of_a_split_cover_all_items_without_overlap() {
        let pool = ThreadPool::new(2);
        let hits: Vec<AtomicUsize> = (0..103).map(|_| AtomicUsize::new(0)).collect();
        pool.split(hits.len(), 5, |range| {
            for item in range {
                hits[item].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
    }
}
