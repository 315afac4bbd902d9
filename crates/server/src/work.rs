//! Work that grows with a request, done away from the threads that serve connections.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::error::ApiError;

/// Work on less than this is done at once: it takes less than handing it over.
const INLINE: usize = 4 << 10;

/// Work on more than this waits for others of its kind, and smaller work does not wait for it.
const LARGE: usize = 64 << 10;

/// Threads for such work: as many as there are cores, and half as many again for what is large.
#[derive(Debug)]
pub(crate) struct Work {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Work {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            small: Arc::new(Semaphore::new(cores)),
            large: Arc::new(Semaphore::new((cores / 2).max(1))),
        }
    }

    /// Does work that grows with this number of bytes.
    pub(crate) async fn on<T: Send + 'static>(
        &self,
        bytes: usize,
        job: impl FnOnce(&Abandoned) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if bytes <= INLINE {
            return job(&Abandoned::default());
        }
        self.aside(bytes, job).await
    }

    /// The same for work that may take long however little it is done on.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        job: impl FnOnce(&Abandoned) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let lane = if bytes > LARGE {
            &self.large
        } else {
            &self.small
        };
        let broken = |error: &dyn std::error::Error| ApiError::Failed(error.to_string());
        let permit = Arc::clone(lane).acquire_owned().await;
        let permit = permit.map_err(|error| broken(&error))?;
        let asked = Asked(Abandoned::default());
        let abandoned = asked.0.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            job(&abandoned)
        });
        done.await.map_err(|error| broken(&error))?
    }
}

/// Says to work that nobody waits for it any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Ends work that nobody waits for.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(ApiError::Failed("the client is gone".to_owned()));
        }
        Ok(())
    }
}

/// Somebody waits for work, until this is dropped.
struct Asked(Abandoned);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::ThreadId;

    use super::*;

    async fn thread_of(work: &Work, bytes: usize) -> ThreadId {
        let job = |_: &Abandoned| Ok(std::thread::current().id());
        work.on(bytes, job).await.unwrap()
    }

    #[tokio::test]
    async fn only_what_is_small_is_done_where_connections_are_served() {
        let work = Work::new();
        let here = std::thread::current().id();
        assert_eq!(thread_of(&work, INLINE).await, here);
        assert_ne!(thread_of(&work, INLINE + 1).await, here);
        assert_ne!(thread_of(&work, LARGE + 1).await, here);
        let aside = work.aside(0, |_| Ok(std::thread::current().id()));
        assert_ne!(aside.await.unwrap(), here);
    }

    #[tokio::test]
    async fn large_work_waits_for_large_work_and_small_work_does_not() {
        let work = Arc::new(Work::new());
        let places = work.large.available_permits();
        let (finish, finished) = channel::<()>();
        let finished = Arc::new(std::sync::Mutex::new(finished));
        let running: Vec<_> = (0..=places)
            .map(|_| {
                let (work, finished) = (Arc::clone(&work), Arc::clone(&finished));
                let job = move |_: &Abandoned| {
                    finished.lock().unwrap().recv().unwrap();
                    Ok(())
                };
                tokio::spawn(async move { work.on(LARGE + 1, job).await })
            })
            .collect();
        while work.large.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_ne!(thread_of(&work, LARGE).await, std::thread::current().id());
        assert_eq!(work.large.available_permits(), 0);
        for _ in 0..=places {
            finish.send(()).unwrap();
        }
        for job in running {
            job.await.unwrap().unwrap();
        }
        assert_eq!(work.large.available_permits(), places);
    }

    #[tokio::test]
    async fn work_is_told_when_nobody_waits_for_it() {
        let work = Arc::new(Work::new());
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn({
            let work = Arc::clone(&work);
            async move {
                let job = move |abandoned: &Abandoned| {
                    begun.send(()).unwrap();
                    while abandoned.check().is_ok() {
                        std::thread::yield_now();
                    }
                    ended.send(()).unwrap();
                    abandoned.check()
                };
                work.aside(0, job).await
            }
        });
        has_begun.await.unwrap();
        waiting.abort();
        has_ended.await.unwrap();
    }
}
