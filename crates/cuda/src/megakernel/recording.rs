//! Pending stages: while a graph is captured, they wait for an op that cannot be a stage.

use std::sync::{Arc, Mutex, PoisonError};

use ops::DeviceError;
use tensor::Buffer;

use super::variety::Variety;
use super::{Megakernel, Stage};
use crate::context::Context;
use crate::memory::{allocate, fill};

/// The most stages of one graph; later ones are launches of their own.
const MAX_STAGES: usize = 2048;

/// What a context keeps of ops that were not enqueued yet.
#[derive(Default)]
pub(crate) struct Recording(Mutex<Option<Pending>>);

struct Pending {
    megakernel: Arc<Megakernel>,
    /// Where all stages will be when the graph runs.
    buffer: Buffer,
    all: Vec<Stage>,
    /// Stages of launches that were enqueued.
    enqueued: usize,
}

impl Recording {
    /// Begins to keep stages.
    pub(crate) fn begin(
        &self,
        context: &Arc<Context>,
        megakernel: &Arc<Megakernel>,
    ) -> Result<(), DeviceError> {
        let bytes = MAX_STAGES * size_of::<Stage>();
        let stages = Pending {
            megakernel: Arc::clone(megakernel),
            buffer: allocate(context, bytes, "the decode megakernel")?,
            all: Vec::new(),
            enqueued: 0,
        };
        *self.stages() = Some(stages);
        Ok(())
    }

    /// True when the stage reads what the last pending one writes and one kernel runs both, or none is pending.
    pub(super) fn continues_with(&self, stage: &Stage) -> bool {
        self.stages().as_ref().is_none_or(|stages| {
            let waiting = &stages.all[stages.enqueued..];
            let agrees =
                || Variety::of(waiting).is_some_and(|all| all.with(stage.variety()).is_some());
            waiting
                .last()
                .is_none_or(|last| stage.follows(last) && agrees())
        })
    }

    /// Keeps a stage, unless nothing is being recorded.
    pub(super) fn keep(&self, stage: &Stage) -> bool {
        match &mut *self.stages() {
            Some(stages) if stages.all.len() < MAX_STAGES => {
                stages.all.push(*stage);
                true
            }
            _ => false,
        }
    }

    /// Enqueues the pending stages as one launch: the next op is no stage.
    pub(crate) fn flush(&self, context: &Context) -> Result<(), DeviceError> {
        let (megakernel, address, stages) = {
            let mut recording = self.stages();
            let Some(recording) = recording.as_mut() else {
                return Ok(());
            };
            let from = recording.enqueued;
            recording.enqueued = recording.all.len();
            let address = recording.buffer.address() as usize + from * size_of::<Stage>();
            let stages = recording.all[from..].to_vec();
            (Arc::clone(&recording.megakernel), address as u64, stages)
        };
        if stages.is_empty() {
            return Ok(());
        }
        megakernel.launch(context, address, &stages)
    }

    /// Stops keeping stages. Gives the memory that the graph reads its stages from, if it has any.
    pub(crate) fn end(&self, context: &Context) -> Result<Option<Buffer>, DeviceError> {
        let Some(stages) = self.stages().take() else {
            return Ok(None);
        };
        if stages.all.is_empty() {
            return Ok(None);
        }
        fill(
            context,
            &stages.buffer,
            &stages.all,
            "copying megakernel stages",
        )?;
        Ok(Some(stages.buffer))
    }

    fn stages(&self) -> std::sync::MutexGuard<'_, Option<Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
