//! A person or a machine asks us to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether we were asked to stop. Copies are the same question.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// One that listens to control-C and to the signal that ends services. Everything that runs in
    /// steps looks at it and cleans up after itself.
    pub(crate) fn listening() -> Self {
        let interrupt = Self::default();
        let asked = interrupt.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let Ok(mut terminate) = signal(SignalKind::terminate()) else {
                    return;
                };
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
                asked.ask();
            });
        });
        interrupt
    }

    /// Asks to stop.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether we were asked to stop.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
