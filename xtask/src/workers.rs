//! Work that is done some at a time.

use std::sync::Mutex;

/// A small machine has two cores.
const AT_ONCE: usize = 2;

/// Does the work for every item; begins no more of it once some has failed.
pub(crate) fn for_each<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let rest = Mutex::new(items.iter());
    let list = || rest.lock().expect("nobody panics with the list");
    let work_off = || -> anyhow::Result<()> {
        loop {
            let next = list().next();
            let Some(item) = next else { return Ok(()) };
            let outcome = work(item);
            if outcome.is_err() {
                list().by_ref().for_each(drop);
            }
            outcome?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work_off)).collect();
        let results = workers
            .into_iter()
            .map(|worker| worker.join().expect("workers return errors"));
        results.collect::<Vec<_>>().into_iter().collect()
    })
}
