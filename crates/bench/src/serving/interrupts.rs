//! A person's interrupt ends the load, not the program.

use crate::client::Interrupter;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Watches for an interrupt until it is dropped.
pub(super) struct Watch {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Passes interrupts on, if that is wanted.
pub(super) fn watch(interrupter: Interrupter, wanted: bool) -> Watch {
    if !wanted {
        return Watch {
            end: None,
            thread: None,
        };
    }
    let (end, ended) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            tokio::select! {
                interrupted = tokio::signal::ctrl_c() => {
                    if interrupted.is_ok() {
                        interrupter.interrupt();
                    }
                }
                _ = ended => {}
            }
        });
    });
    Watch {
        end: Some(end),
        thread: Some(thread),
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
