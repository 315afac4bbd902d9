use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ops::{NoTracer, Readback, Tracer};
use scheduler::{StepOutcome, StepPlan};

use crate::outcome::Pending;
use crate::{DeviceLost, Executor, Rank};

/// One rank on a thread of this process.
pub struct LocalExecutor {
    plans: Option<Sender<StepPlan>>,
    pending: Receiver<Result<Pending, DeviceLost>>,
    readbacks: Sender<Box<dyn Readback>>,
    tracer: Result<Arc<dyn Tracer>, NoTracer>,
    thread: Option<JoinHandle<()>>,
}

impl LocalExecutor {
    /// Starts the rank's thread.
    pub fn start(mut rank: Rank) -> Result<Self, DeviceLost> {
        let (plans, plan_inbox) = channel();
        let (pending_outbox, pending) = channel();
        let (readbacks, free) = channel();
        for readback in rank.take_readbacks() {
            readbacks.send(readback).expect("the receiver is at hand");
        }
        let tracer = rank.device().tracer();
        let thread = std::thread::Builder::new()
            .name("rank-0".into())
            .spawn(move || run_rank(rank, &plan_inbox, &free, &pending_outbox))
            .map_err(DeviceLost::because)?;
        Ok(Self {
            plans: Some(plans),
            pending,
            readbacks,
            tracer,
            thread: Some(thread),
        })
    }

    /// The last words of a rank whose thread has ended, if nobody has heard them yet.
    fn why_ended(&self) -> DeviceLost {
        let told = self.pending.try_iter().find_map(Result::err);
        told.unwrap_or_else(|| DeviceLost::because("the rank's thread has ended"))
    }
}

fn run_rank(
    mut rank: Rank,
    plans: &Receiver<StepPlan>,
    free: &Receiver<Box<dyn Readback>>,
    outbox: &Sender<Result<Pending, DeviceLost>>,
) {
    for plan in plans {
        let Ok(readback) = free.recv() else { return };
        let result = rank.run(&plan, readback);
        let lost = result.is_err();
        if outbox.send(result).is_err() || lost {
            return;
        }
    }
}

impl Executor for LocalExecutor {
    fn submit(&mut self, plan: StepPlan) -> Result<(), DeviceLost> {
        let plans = self.plans.as_ref().expect("open until dropped");
        plans.send(plan).map_err(|_| self.why_ended())
    }

    fn next_outcome(&mut self) -> Result<StepOutcome, DeviceLost> {
        let pending = self.pending.recv().map_err(|_| self.why_ended())??;
        let (outcome, readback) = pending.wait()?;
        // A rank that is gone needs no readback.
        let _ = self.readbacks.send(readback);
        Ok(outcome)
    }

    fn tracer(&self) -> Result<Arc<dyn Tracer>, NoTracer> {
        self.tracer.clone()
    }
}

impl Drop for LocalExecutor {
    fn drop(&mut self) {
        self.plans = None;
        if let Some(thread) = self.thread.take() {
            // A rank that panicked has said so on standard error; there is nothing more to do here.
            let _ = thread.join();
        }
    }
}
