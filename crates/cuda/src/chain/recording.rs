//! Links that wait, while a graph is captured, for an op that cannot be one.

use std::sync::{Arc, Mutex, PoisonError};

use ops::DeviceError;
use tensor::Buffer;

use super::variety::Variety;
use super::{Chain, Link};
use crate::context::Context;
use crate::memory::{allocate, fill};

/// The most links of one graph; later ones are chains of their own.
const MOST_LINKS: usize = 2048;

/// What a context keeps of ops that were not enqueued yet.
#[derive(Default)]
pub(crate) struct Recording(Mutex<Option<Links>>);

struct Links {
    chain: Arc<Chain>,
    /// Where all links will be when the graph runs.
    buffer: Buffer,
    all: Vec<Link>,
    /// Links of chains that were enqueued.
    enqueued: usize,
}

impl Recording {
    /// Keeps links from now on.
    pub(crate) fn begin(
        &self,
        context: &Arc<Context>,
        chain: &Arc<Chain>,
    ) -> Result<(), DeviceError> {
        let bytes = MOST_LINKS * size_of::<Link>();
        let links = Links {
            chain: Arc::clone(chain),
            buffer: allocate(context, bytes, "chains of ops")?,
            all: Vec::new(),
            enqueued: 0,
        };
        *self.links() = Some(links);
        Ok(())
    }

    /// True when the link reads what the last one that waits finds and one kernel runs both, or none waits.
    pub(super) fn goes_on_with(&self, link: &Link) -> bool {
        self.links().as_ref().is_none_or(|links| {
            let waiting = &links.all[links.enqueued..];
            let agrees =
                || Variety::of(waiting).is_some_and(|all| all.with(link.variety()).is_some());
            waiting
                .last()
                .is_none_or(|last| link.follows(last) && agrees())
        })
    }

    /// Keeps a link, unless nothing is being recorded.
    pub(super) fn keep(&self, link: &Link) -> bool {
        match &mut *self.links() {
            Some(links) if links.all.len() < MOST_LINKS => {
                links.all.push(*link);
                true
            }
            _ => false,
        }
    }

    /// Enqueues the links that wait as one chain: something that is no link follows.
    pub(crate) fn flush(&self, context: &Context) -> Result<(), DeviceError> {
        let (chain, address, links) = {
            let mut recording = self.links();
            let Some(recording) = recording.as_mut() else {
                return Ok(());
            };
            let from = recording.enqueued;
            recording.enqueued = recording.all.len();
            let address = recording.buffer.address() as usize + from * size_of::<Link>();
            let links = recording.all[from..].to_vec();
            (Arc::clone(&recording.chain), address as u64, links)
        };
        if links.is_empty() {
            return Ok(());
        }
        chain.launch(context, address, &links)
    }

    /// Keeps no more links. Gives the memory that the graph reads its links from, if it has any.
    pub(crate) fn end(&self, context: &Context) -> Result<Option<Buffer>, DeviceError> {
        let Some(links) = self.links().take() else {
            return Ok(None);
        };
        if links.all.is_empty() {
            return Ok(None);
        }
        fill(
            context,
            &links.buffer,
            &links.all,
            "copying links of chains",
        )?;
        Ok(Some(links.buffer))
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Option<Links>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
