//! Links that wait, while a graph is captured, for an op that cannot be one.

use std::sync::{Arc, Mutex, PoisonError};

use ops::DeviceError;
use tensor::Buffer;

use super::variety::Variety;
use super::{Megakernel, Stage};
use crate::context::Context;
use crate::memory::{allocate, fill};

/// The most links of one graph; later ones are chains of their own.
const MAX_STAGES: usize = 2048;

/// What a context keeps of ops that were not enqueued yet.
#[derive(Default)]
pub(crate) struct Recording(Mutex<Option<Pending>>);

struct Pending {
    megakernel: Arc<Megakernel>,
    /// Where all links will be when the graph runs.
    buffer: Buffer,
    all: Vec<Stage>,
    /// Links of chains that were enqueued.
    enqueued: usize,
}

impl Recording {
    /// Keeps links from now on.
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

    /// True when the link reads what the last one that waits finds and one kernel runs both, or none waits.
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

    /// Keeps a link, unless nothing is being recorded.
    pub(super) fn keep(&self, stage: &Stage) -> bool {
        match &mut *self.stages() {
            Some(stages) if stages.all.len() < MAX_STAGES => {
                stages.all.push(*stage);
                true
            }
            _ => false,
        }
    }

    /// Enqueues the links that wait as one chain: something that is no link follows.
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

    /// Keeps no more links. Gives the memory that the graph reads its links from, if it has any.
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
